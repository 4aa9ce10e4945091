"""The page of commands shows what `--help` says: asked when the site is built, so it stands nowhere twice."""

import io

from rich.console import Console

from operformer.cli import app

MARKER = "<!-- the help of every command -->"


def on_page_markdown(markdown, **_):
    """A hook of MkDocs: the marker becomes a section for each command."""
    return markdown.replace(MARKER, "\n\n".join(map(section, commands()))) if MARKER in markdown else markdown


def commands():
    """The names of all commands, in the order of the command line."""
    return [name for name in app if not name.startswith("-")]


def section(name):
    """What a command says of itself."""
    console = Console(file=io.StringIO(), width=76, color_system=None)
    app.help_print([name], console=console)
    return f"## {name}\n\n```text\n{console.file.getvalue().strip()}\n```"
