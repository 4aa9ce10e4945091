"""A strict reader of the LaTeX that tables are written in: whatever LaTeX would stumble over is an error."""

import re

SPECIAL = re.compile(r"\\(?:begin|end|centering|hline|caption|label|textbackslash|textasciitilde|textasciicircum|surd|"
                     r"times|cdot)(?![a-zA-Z])|\\[&%$#_{}\\]")  # fmt: skip


def read_table(text):
    """The rows of the one tabular in the text, after every command, brace, dollar and ampersand was looked at."""
    assert text.isascii()
    for command in re.findall(r"\\(?:[a-zA-Z]+|.)", text, flags=re.DOTALL):
        assert SPECIAL.fullmatch(command), command
    plain = re.sub(r"\\[&%$#_{}]", "", text)
    assert not re.search(r"[%#~]", plain)
    depth = 0
    for letter in plain:
        depth += (letter == "{") - (letter == "}")
        assert depth >= 0
    assert depth == 0
    for line in plain.splitlines():
        assert line.count("$") % 2 == 0, line
        outside = re.sub(r"\$[^$]*\$", "", line)
        assert "^" not in outside
        if not line.startswith(r"\label"):
            assert "_" not in outside
    assert re.findall(r"\\(begin|end)\{(\w+)\}", text) == [
        ("begin", "table"), ("begin", "tabular"), ("end", "tabular"), ("end", "table"),
    ]  # fmt: skip
    columns, body = re.search(r"\\begin\{tabular\}\{([lr]+)\}\n(.*)\n\\end\{tabular\}", text, re.DOTALL).groups()
    rows = [line for line in body.splitlines() if line != r"\hline"]
    cells = []
    for row in rows:
        assert row.endswith(r" \\")
        cells.append(re.split(r" (?<!\\)& ", row.removesuffix(r" \\")))
        assert len(cells[-1]) == len(columns)
    return cells
