"""Each decision of DESIGN.md is named by a comment in the code that it explains, and each such comment names one."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_decisions_and_code_name_each_other():
    parts = (ROOT / "DESIGN.md").read_text().split("\n\n")
    titles = [" ".join(part.split("**")[1].rstrip(".").split()) for part in parts if part.startswith("**")]
    files = [path for folder in ("operformer", "paper", "tests") for path in (ROOT / folder).rglob("*.py")]
    named = [name for path in files for name in re.findall(r"^# DESIGN\.md: (.+)$", path.read_text(), re.MULTILINE)]
    assert len(titles) > 30
    assert sorted(named) == sorted(titles)
