"""Docstrings as the prose they are: equations in ASCII are no Markdown, names are links, comments describe fields.

An extension of griffe, which reads the package without importing it.
"""

import re

import griffe

_SPAN = re.compile(r"(``.+?``|`.+?`)", re.DOTALL)
_ARGUMENTS = re.compile(r"^    (\w+(?:, \w+)*): ", re.MULTILINE)
_COMMENT = re.compile(r"[^#]*\s# (?P<words>(?!noqa|type:).+)$")


class Prose(griffe.Extension):
    """Escapes what Markdown would take for emphasis, links or tags, and links names of the package to their place."""

    def on_package(self, *, pkg, **_):
        """Every docstring of the package, once all of it is read."""
        objects = list(_objects(pkg))
        for thing in objects:
            if thing.is_attribute and thing.docstring is None and thing.parent.is_class:
                _describe(thing)
        places = _places(objects)
        for thing in objects:
            if thing.docstring is not None:
                thing.docstring.value = as_markdown(thing.docstring.value, places)


def as_markdown(prose, places):
    """Prose with code in backticks as Markdown that shows the same; indented lines and examples stay as they are."""
    return "\n\n".join(_part(part, places) for part in prose.split("\n\n"))


def _part(part, places):
    if part.startswith(("    ", "Example")):
        return part
    if not part.startswith("Args:"):
        return _spans(part, places)
    head, *found = _ARGUMENTS.split(part)  # then names and what is said of them, in turn
    lines = [
        f"    {name}: {_spans(words, places)}".rstrip()
        for names, words in zip(found[::2], found[1::2], strict=True)
        for name in names.split(", ")  # one entry each: `scale, tau, alpha` share their words
    ]
    return "\n".join([head.rstrip(), *lines])


def _spans(prose, places):
    return "".join(_shown(span, places) for span in _SPAN.split(prose))


def _shown(span, places):
    if not span.startswith("`"):
        escaped = re.sub(r"([\\*_\[\]#])", r"\\\1", span)
        return escaped.replace("<", "&lt;").replace(">", "&gt;")
    name = span.strip("`")
    place = places.get(name.removeprefix("operformer."))
    return f'<autoref identifier="{place}" optional><code>{name}</code></autoref>' if place else span


def _objects(thing):
    """All that is defined in the package, without what is imported from elsewhere in it."""
    for member in thing.members.values():
        if not member.is_alias:
            yield member
            yield from _objects(member)


def _places(objects):
    """Where a name is defined, by the names that docstrings use: `Grid`, `Grid.uniform`, `attention`."""
    places = {}
    for thing in objects:
        if thing.name.startswith("_") or thing.is_module:
            continue
        if thing.parent.is_module:
            places.setdefault(thing.name, thing.path)
        elif thing.parent.is_class and thing.is_function:
            places.setdefault(f"{thing.parent.name}.{thing.name}", thing.path)
    return places


def _describe(attribute):
    """The comment beside a field says what it is."""
    found = _COMMENT.match(attribute.lines[0]) if attribute.lines else None
    if found:
        words = found["words"]
        text = words[0].upper() + words[1:] + ("" if words.endswith(".") else ".")
        attribute.docstring = griffe.Docstring(text, parent=attribute)
