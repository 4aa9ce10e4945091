"""Formulas as MathML, which browsers draw by themselves: LaTeX is converted when the site is built.

pymdownx.arithmatex marks what stands between dollars; what cannot be converted ends the build.
"""

import re
from html import unescape
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

_MARKED = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
_PARTS = {"mfrac": 2, "msub": 2, "msup": 2, "mover": 2, "munder": 2, "msubsup": 3, "munderover": 3}
# The converter sets these as letters: a relation gets no space around it, brackets no form.
_OPERATORS = {"&#x0007E;": "&#x0223C;", "&#x027E8;": "&#x027E8;", "&#x027E9;": "&#x027E9;"}


def on_page_content(html, page, **_):
    """A hook of MkDocs: the page with its formulas converted."""
    return _MARKED.sub(lambda found: formula(unescape(found[3]), found[2] == "[", page.file.src_path), html)


def formula(latex, is_display, where):
    """The MathML of a formula, in a box of its own if it is displayed; ``where`` is for the error."""
    try:
        mathml = convert(latex, display="block" if is_display else "inline")
        for given, meant in _OPERATORS.items():
            mathml = mathml.replace(f"<mi>{given}</mi>", f'<mo stretchy="false">{meant}</mo>')
        _check(ElementTree.fromstring(mathml))
    except Exception as error:
        raise PluginError(f"{where}: the formula {latex!r} cannot be converted: {error!r}") from None
    return f'<div class="formula">{mathml}</div>' if is_display else mathml


def _check(element):
    """What the converter does not know it passes on as it is, and a missing argument it leaves out."""
    tag = element.tag.rpartition("}")[2]
    if tag in _PARTS and len(element) != _PARTS[tag]:
        raise ValueError(f"<{tag}> has {len(element)} parts, not {_PARTS[tag]}")
    if re.search(r"[\\&${}]", element.text or "") and tag != "mo":
        raise ValueError(f"{element.text!r} was not understood")
    for part in element:
        _check(part)
