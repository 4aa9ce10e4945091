"""Every command and every block of Python in README.md, CONTRIBUTING.md and docs/ is carried out, page by page."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pages import ROOT, all_pages, parse_page, read_page
from treatment import BROUGHT, FEW, NOT_RUN, PROGRAMS, PROMISES, SMALLER, NotRun, tiny_rows, treatment_of

from operformer import __version__
from operformer.cli import app
from operformer.operators.pretrained import shipped_names
from paper import recipes
from paper.__main__ import app as paper_app
from paper.catalogue import CATALOGUE
from paper.studies import STUDIES

pytestmark = [
    pytest.mark.pages,
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # raised by the compiler's own imports
]

PAGES = all_pages()
SYNTAX = re.compile(r"[|<>;&$`]")  # of the shell, outside of quotes


@pytest.fixture
def follow(call, call_paper, tmp_path, monkeypatch):
    """Carry out a page's steps in a folder with what they read in it; a step that fails is named with its line."""
    monkeypatch.chdir(tmp_path)
    for name in ("examples", "benchmarks", "docs"):
        shutil.copytree(ROOT / name, name)
    before, threads, models = signal.getsignal(signal.SIGTERM), torch.get_num_threads(), shipped_names()

    def carry_out(page):
        names = {"__name__": "__main__"}
        for step in page.steps:
            try:
                treated = treatment_of(step.text)
                if isinstance(treated, NotRun):
                    treated.check(step.text)
                elif step.kind == "python":
                    exec(compile("\n" * (step.line - 1) + step.text, page.name, "exec"), names)
                else:
                    run_command(step.text, treated, call, call_paper, monkeypatch)
            except (Exception, SystemExit) as error:
                first = step.text.splitlines()[0]
                pytest.fail(f"{page.name}:{step.line}: {first}\n{type(error).__name__}: {error}")
        return names

    yield carry_out
    signal.signal(signal.SIGTERM, before)
    torch.set_num_threads(threads)
    assert shipped_names() == models, "a page's commands changed the library"


def run_command(command, smaller, call, call_paper, monkeypatch):
    """Run a printed command, made smaller if the table says so; it has to end with code 0."""
    for name in BROUGHT.keys() & set(shlex.split(command)):
        if not Path(name).exists():
            BROUGHT[name]()
    with monkeypatch.context() as patch:
        if smaller is not None:
            command = smaller.apply(command)
            if smaller.tiny:
                shrink_the_catalogue(patch)
        program, *arguments = shlex.split(command)
        if program not in PROGRAMS:
            raise AssertionError(f"{program} is in no category: list the command in NOT_RUN, with what is checked")
        is_plain = not SYNTAX.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", command))
        if program == "operformer" and is_plain:
            code, out, err = call(*arguments)
        elif arguments[:2] == ["-m", "paper"] and is_plain:
            code, out, err = call_paper(*arguments[2:])
        else:
            code, out, err = run_in_a_shell(command)
    assert code == 0, f"{command}\nended with code {code}:\n{out[-3000:]}{err[-3000:]}"


def run_in_a_shell(command):
    beside = str(Path(sys.executable).parent)  # python and torchrun of this environment
    environment = {"PYTHONPATH": str(ROOT), "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    script = f'operformer() {{ python -m operformer.cli "$@"; }}\n{command}'
    done = subprocess.run(
        ["bash", "-c", script], env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout, done.stderr


def shrink_the_catalogue(patch):
    def in_this_process(tasks, workers, report):
        for task in tasks:
            task(report)

    patch.setattr("paper.studies._ALL", tuple(STUDIES[name] for name in FEW))
    patch.setattr("paper.runs.in_processes", in_this_process)
    # What is recorded is compared with the catalogue; results are reported of all its runs.
    for name, row in tiny_rows().items():
        patch.setitem(CATALOGUE, name, row)
    train_as = recipes.train_as
    patch.setattr(
        recipes, "train_as", lambda row, recipe: row.authors if row.name in tiny_rows() else train_as(row, recipe)
    )


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_prints_works(follow, name):
    page = read_page(name)
    assert not page.strays, f"{name}:{page.strays[0].line}: a command outside of the blocks that are run: use ```sh"
    names = follow(page)
    for promise in PROMISES.get(name, ()):
        assert eval(promise, names), promise


@pytest.mark.parametrize("name", PAGES)
def test_commands_inside_sentences_exist(call, call_paper, name):
    for step in read_page(name).inline:
        treated, words = treatment_of(step.text), step.text.split()
        if isinstance(treated, NotRun):
            treated.check(step.text)
            continue
        where = f"{name}: {step.text}"
        is_of_the_paper = words[:3] == ["python", "-m", "paper"]
        assert words[0] == "operformer" or is_of_the_paper, where
        command = words[3 if is_of_the_paper else 1]
        assert command in (paper_app if is_of_the_paper else app), where
        known = (call_paper if is_of_the_paper else call)(command, "--help")[1]
        for option in re.findall(r"--[a-z-]+", step.text):
            assert re.search(rf"{option}\b", known), where


def test_every_command_of_the_command_line_is_printed_somewhere():
    words = [step.text.split() for name in PAGES for step in read_page(name).commands]
    printed = {word[1] for word in words if word[0] == "operformer"}
    assert ["make", "demo"] in words  # which is operformer demo
    assert {name for name in app if not name.startswith("-")} == printed | {"demo"}


@pytest.mark.parametrize("entry", [*SMALLER, *NOT_RUN], ids=lambda entry: entry.pattern)
def test_no_entry_of_the_tables_is_idle(entry):
    pages = map(read_page, PAGES)
    assert entry in [treatment_of(step.text) for page in pages for step in (*page.steps, *page.inline)]


def test_no_file_is_brought_and_no_promise_kept_in_vain():
    words = {word for name in PAGES for step in read_page(name).commands for word in step.text.split()}
    assert BROUGHT.keys() <= words
    assert PROMISES.keys() <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_paths_exist(name):
    for path in re.findall(r"`((?:operformer|examples|benchmarks)/[\w/]+(?:\.\w+)?/?)`", (ROOT / name).read_text()):
        assert (ROOT / path).exists() or "/x/" in path, path  # x stands for any folder


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_exist(name):
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (ROOT / name).read_text()):
        assert (ROOT / target).exists(), target


# The harness itself

PAGE = """Prose with `operformer train RUN` in it.

```sh
operformer import mine.npz --layout "b x y" --out data/mine  # a comment
operformer inspect \\
    data/mine
operformer --version | tr -d . > version
```

```python
import numpy as np
count = len(np.load("mine.npz")["u"])
```

    operformer experiments

```python
assert count == 60
```
"""


def test_a_page_is_read():
    page = parse_page(PAGE, "docs/page.md", indented=False)
    assert [(step.kind, step.line) for step in page.steps] == [
        ("command", 4),
        ("command", 5),
        ("command", 7),
        ("python", 11),
        ("python", 18),
    ]
    assert page.steps[0].text == 'operformer import mine.npz --layout "b x y" --out data/mine'
    assert page.steps[1].text == "operformer inspect data/mine"
    assert page.steps[3].text.startswith("import numpy")
    assert [(step.text, step.line) for step in page.strays] == [("operformer experiments", 15)]
    assert [step.text for step in page.inline] == ["operformer train RUN"]
    assert [step.text for step in parse_page(PAGE, "README.md", indented=True).commands][3] == "operformer experiments"


def test_a_page_is_followed(follow, tmp_path):
    follow(parse_page(PAGE, "docs/page.md", indented=False))
    assert (tmp_path / "data/mine/manifest.json").is_file()
    assert (tmp_path / "version").read_text().strip() == __version__.replace(".", "")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("```sh\noperformer inspect nowhere\n```", r"page\.md:2: operformer inspect nowhere.*code 3"),
        ("```sh\noperformer inspect x --colour red\n```", r"code 2"),
        ("```sh\noperformer --version && false\n```", r"code 1"),
        ("```sh\nmake tea\n```", r"make tea"),
        ("```sh\npip install 'operformer[tea]'\n```", r"tea"),
        ("```sh\nbrew install operformer\n```", r"in no category"),
        ("```python\nx = 1\n```\n\n```python\nassert x == 2\n```", r"page\.md:6: assert x == 2\nAssertionError"),
        ("```python\nimport operformer\n\noperformer.read('nowhere.npz')\n```", r"page\.md:2: .*\nDataError"),
    ],
)
def test_what_does_not_work_is_caught(follow, wrong, said):
    with pytest.raises(pytest.fail.Exception, match=re.compile(said, flags=re.DOTALL)):
        follow(parse_page(wrong, "page.md", indented=False))
