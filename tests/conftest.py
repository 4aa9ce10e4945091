"""What tests of the command line share, and the browser of those that look at pages."""

import os
import shutil
import string
import sys

import pytest
import torch

from operformer.commands.doctor import BROWSERS

pytest_plugins = ["made", "counted"]
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton: kernels then run in NumPy


@pytest.fixture(autouse=True)
def _compile_afresh():
    """All operators share one `forward`, and the compiler compiles one function eight times a process and no more."""
    yield
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


@pytest.fixture
def call(capsys):
    """Run a command in this process: its exit code, standard output and standard error."""

    def run(*arguments):
        from operformer import cli  # not everywhere that library tests run is the command line's framework

        return _run(cli, cli.app, arguments, capsys)

    return run


@pytest.fixture
def call_paper(capsys):
    """The same for a command of `python -m paper`."""

    def run(*arguments):
        from operformer import cli
        from paper.__main__ import app

        return _run(cli, app, arguments, capsys)

    return run


def _run(cli, app, arguments, capsys):
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        cli.run(app, [str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


@pytest.fixture(scope="session")
def misspellings():
    """Words that differ by a letter: left out, doubled, swapped with the next, replaced by a fifth of the alphabet."""

    def of(word):
        found = set()
        for k in range(len(word)):
            before, letter, after = word[:k], word[k], word[k + 1 :]
            found |= {before + after, before + letter + letter + after, before + after[:1] + letter + after[1:]}
            found |= {before + other + after for other in string.ascii_lowercase[k % 5 :: 5]}
        return found - {word, ""}

    return of


NO_BROWSER = "no chromium found: the page's browser tests are skipped; install chromium"


@pytest.fixture(scope="session")
def chromium():
    """The path of a browser; without one, the tests that need it are skipped."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(NO_BROWSER)
    return found


@pytest.fixture(scope="module")
def browser(chromium):
    """The browser, started."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright belongs to the extra dev")
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield opened
        opened.close()


def pytest_terminal_summary(terminalreporter):
    """Say in one line that there was no browser."""
    if any(NO_BROWSER in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(NO_BROWSER)
