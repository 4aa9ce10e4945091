"""Pages of the site that lie outside docs/: README, design, changelog, notebook. Links lead to the pages of the site.

Files are written for a reader of the repository. A link to a file that the site does not have becomes its words.
"""

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
SOURCES = {"README.md": "index.md", "DESIGN.md": "design.md", "CHANGELOG.md": "changelog.md"} | {
    f"notebook/{path.name}": f"notebook/{path.name}" for path in sorted((ROOT / "notebook").glob("*.md"))
}
PAGES = {page: source for source, page in SOURCES.items()}
LINK = re.compile(r"\[([^\]\[]+)\]\(([^()\s#]+)(#[^()\s]*)?\)")


def on_files(files, config):
    """Add the pages from outside docs/."""
    for source, page in SOURCES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links as the site needs them; code is left alone."""
    here = page.file.src_uri
    source = PAGES.get(here, f"docs/{here}")

    def lead(found):
        words, target, anchor = found[1], found[2], found[3] or ""
        if ":" in target:
            return found[0]
        real = normpath(join(dirname(source), target))
        there = SOURCES.get(real, real.removeprefix("docs/") if real.startswith("docs/") else None)
        if there is None or files.get_file_from_path(there) is None:
            return words if real.partition("/")[0] != "docs" and (ROOT / real).exists() else found[0]
        return f"[{words}]({relpath(there, dirname(here) or '.')}{anchor})"

    parts = re.split(r"(^```.*?^```|`[^`\n]+`)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if i % 2 else LINK.sub(lead, part) for i, part in enumerate(parts))
