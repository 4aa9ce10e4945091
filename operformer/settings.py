"""Settings from outside, checked against the signature of what they configure: no unknown key, no wrong type."""

# DESIGN.md: Settings are constructor arguments

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from math import isfinite
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from operformer.errors import UsageError

T = TypeVar("T")
AS_GIVEN = "checked where it is used"  # in Annotated


def construct(make: Callable[..., T], values: Mapping[str, Any], where: str, **fixed: Any) -> T:
    """make(**values, **fixed), after every key and type was compared with the signature; ``where`` is for messages."""
    parameters = inspect.signature(make).parameters
    hints = hints_of(make)
    open_names = [name for name in parameters if name not in fixed]
    for key in values:
        check_name(key, open_names, f"unknown setting {where}.{key}")
    missing = [n for n in open_names if n not in values and parameters[n].default is inspect.Parameter.empty]
    if missing:
        names = " and ".join(f"{where}.{name}" for name in missing)
        raise UsageError(f"the setting {names} is missing; give it a value")
    given = {key: converted(value, hints[key], f"{where}.{key}") for key, value in values.items()}
    return make(**given, **fixed)


def check_fields(value: Any, where: str) -> None:
    """Refuse fields of a dataclass that have another type than it says, or a name that is not among its choices.

    Numbers of numpy become Python's, lists become tuples.
    """
    hints = hints_of(type(value))  # type: ignore[arg-type]
    for name in value.__dataclass_fields__:
        given = getattr(value, name)
        found = converted(given, hints[name], f"{where}.{name}")
        if found is not given:
            object.__setattr__(value, name, found)  # it may be frozen


@cache  # half of the time of a check is reading annotations
def hints_of(make: Callable[..., Any]) -> Mapping[str, Any]:
    """The types that a signature asks for, by name."""
    asked = getattr(make, "__init__", make) if inspect.isclass(make) else make
    return get_type_hints(asked, include_extras=True)


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is not a whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}: got {named(value)}")


def choose(options: Mapping[str, T], name: Any, where: str) -> T:
    """The option of that name."""
    if not isinstance(name, str):
        raise UsageError(f"{where} must be one of {', '.join(options)}: got {name!r}")
    check_name(name, list(options), f"{where} is unknown: {name!r}")
    return options[name]


def check_name(name: str, known: list[str], complaint: str) -> None:
    """Refuse a name that is not known, and suggest the nearest one that is."""
    if name in known:
        return
    lowered = {option.lower(): option for option in known}
    near = get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    remedy = f"did you mean {lowered[near[0]]}?" if near else f"known are {', '.join(known)}"
    raise UsageError(f"{complaint}; {remedy}")


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs between nested plain values: both values by the key, section.setting; None where it has no value."""
    found: dict[str, tuple[Any, Any]] = {}
    for key in sorted(one.keys() | other.keys()):
        a, b = one.get(key), other.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found |= {f"{key}.{inner}": both for inner, both in differing(a, b).items()}
        elif a != b:
            found[key] = (a, b)
    return found


def converted(value: Any, hint: Any, where: str) -> Any:
    """The value as the type that the hint asks for, or one clear line."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, TypeVar):
        return converted(value, hint.__bound__ or Any, where)
    if hint is Any or (origin is Annotated and AS_GIVEN in arguments):
        return value
    if origin is Literal:
        if any(type(value) is type(one) and value == one for one in arguments):
            return value
        raise UsageError(f"{where} must be {' or '.join(map(repr, arguments))}: got {named(value)}")
    if origin in (Union, UnionType):
        return _converted_to_one_of(value, arguments, where)
    if origin in (tuple, Sequence):
        return _converted_row(value, origin, arguments, where)
    if origin is Mapping:
        given = _of_class(value, Mapping, where)
        return {key: converted(one, arguments[1], f"{where}[{key!r}]") for key, one in given.items()}
    if hint in (int, float, str, bool):
        return _converted_plain(value, hint, where)
    return _of_class(value, origin or hint, where)


def _converted_plain(value: Any, hint: Any, where: str) -> Any:
    """A number, a text or a truth value; numbers of numpy become Python's."""
    if hint is bool and type(value).__name__ == "bool_":
        return bool(value)
    numbers: dict[type, type] = {int: Integral, float: Real}
    if type(value) is not hint and (isinstance(value, bool) or not isinstance(value, numbers.get(hint, hint))):
        raise UsageError(f"{where} must be {_PLAIN[hint]}: got {named(value)}")
    if hint is int and abs(value) > LARGEST:
        raise UsageError(f"{where} must be a number that fits into 64 bits")
    if hint is not float:
        return hint(value)
    try:
        found = float(value)
    except OverflowError:
        raise UsageError(f"{where} must be a number that fits into 64 bits") from None
    if not isfinite(found):
        raise UsageError(f"{where} must be finite: got {named(value)}")
    return found


def _converted_row(value: Any, origin: Any, arguments: tuple[Any, ...], where: str) -> Any:
    """Several values, each of its type: as many as there are types, or any number of one type."""
    items = value.tolist() if hasattr(value, "tolist") and getattr(value, "ndim", 0) >= 1 else value
    if not isinstance(items, list | tuple | range):
        raise UsageError(f"{where} must be a list, such as [4]: got {named(value)}")
    is_open = origin is Sequence or arguments[-1] is Ellipsis
    if not is_open and len(items) != len(arguments):
        raise UsageError(f"{where} must be {len(arguments)} values: got {named(value)}")
    kinds = [arguments[0]] * len(items) if is_open else arguments
    return tuple(converted(item, kind, where) for item, kind in zip(items, kinds, strict=True))


def _of_class(value: Any, hint: Any, where: str) -> Any:
    """The value, if it is an object of the class, or can be called where that is asked for."""
    if hint is Callable:
        if callable(value):
            return value
        raise UsageError(f"{where} must be a function: got {named(value)}")
    if hint is Path and isinstance(value, PathLike):
        check_path(value, where)
        return value
    if isinstance(hint, type) and not isinstance(value, hint):
        article = "an" if hint.__name__[0] in "AEIOU" else "a"
        raise UsageError(f"{where} must be {article} {hint.__name__}: got {named(value)}")
    return value


def check_path(value: Any, where: str) -> None:
    """Refuse what no file can be called."""
    text = fspath(value)
    parts = (len(part.encode(errors="replace")) for part in Path(text).parts)
    if not isinstance(text, str) or "\0" in text or max(parts, default=0) > LONGEST_NAME:
        raise UsageError(f"{where} must be the path of a file or folder: got {named(value)}")


def named(value: Any) -> str:
    """A value for a message: short ones as they are, others by what they are."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    try:
        text = repr(value)
    except Exception:  # of somebody else's class
        text = type(value).__name__
    return text if len(text) <= 200 else f"{text[:160]}... ({type(value).__name__})"


def _converted_to_one_of(value: Any, alternatives: tuple[Any, ...], where: str) -> Any:
    """The value as the first of several types that it fits."""
    if value is None and type(None) in alternatives:
        return None
    if Path in alternatives and isinstance(value, str | PathLike):
        check_path(value, where)
        return value
    complaints = []
    for alternative in alternatives:
        if alternative is not type(None):
            try:
                return converted(value, alternative, where)
            except UsageError as error:
                complaints.append(str(error))
    # Where one of several values is wrong, the complaint about that one says most.
    start, end = f"{where} must be ", f": got {named(value)}"
    deeper = [one for one in complaints if not (one.startswith(start) and one.endswith(end))]
    asked = dict.fromkeys(one.removeprefix(start).removesuffix(end) for one in complaints)
    raise UsageError(deeper[0] if deeper else f"{start}{', or '.join(asked)}{end}")


_PLAIN = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
LARGEST = 2**63 - 1
LONGEST_NAME = 255  # bytes of a file's name on every system
