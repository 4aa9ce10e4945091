"""Settings from outside, checked against the signature of what they configure: no unknown key, no wrong type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from math import isfinite
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from operformer.errors import UsageError

T = TypeVar("T")


def construct(make: Callable[..., T], values: Mapping[str, Any], where: str, **fixed: Any) -> T:
    """make(**values, **fixed), after every key and type was compared with the signature; ``where`` is for messages."""
    parameters = inspect.signature(make).parameters
    hints = _hints(make)
    open_names = [name for name in parameters if name not in fixed]
    for key in values:
        check_name(key, open_names, f"unknown setting {where}.{key}")
    missing = [n for n in open_names if n not in values and parameters[n].default is inspect.Parameter.empty]
    if missing:
        names = " and ".join(f"{where}.{name}" for name in missing)
        raise UsageError(f"the setting {names} is missing; give it a value")
    converted = {key: _convert(value, hints[key], f"{where}.{key}") for key, value in values.items()}
    return make(**converted, **fixed)


def check_fields(value: Any, where: str) -> None:
    """Refuse fields of a dataclass that have another type than it says, or a name that is not among its choices."""
    hints = _hints(type(value))  # type: ignore[arg-type]
    for name in value.__dataclass_fields__:
        _convert(getattr(value, name), hints[name], f"{where}.{name}")


@cache  # half of the time of a check is reading annotations
def _hints(make: Callable[..., Any]) -> Mapping[str, Any]:
    return get_type_hints(getattr(make, "__init__", make) if inspect.isclass(make) else make)


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
    """What differs between nested plain values: both values by the key, section.setting; None where there is none."""
    found: dict[str, tuple[Any, Any]] = {}
    for key in sorted(one.keys() | other.keys()):
        a, b = one.get(key), other.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found |= {f"{key}.{inner}": both for inner, both in differing(a, b).items()}
        elif a != b:
            found[key] = (a, b)
    return found


def _convert(value: Any, hint: Any, where: str) -> Any:
    """The value as the type that the hint asks for, or one clear line."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value in arguments:
            return value
        raise UsageError(f"{where} must be {' or '.join(map(repr, arguments))}: got {value!r}")
    if origin in (Union, UnionType):
        return _convert_to_one_of(value, arguments, where)
    if origin in (tuple, Sequence):
        if not isinstance(value, list | tuple):
            raise UsageError(f"{where} must be a list, such as [4]: got {value!r}")
        return tuple(_convert(item, arguments[0], where) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() > 1023:
            raise UsageError(f"{where} must be a number that fits into 64 bits")
        return float(value)
    if hint is float and isinstance(value, float) and not isfinite(value):
        raise UsageError(f"{where} must be finite: got {value}")
    if hint in (int, float, str, bool) and type(value) is not hint:
        raise UsageError(f"{where} must be {_PLAIN[hint]}: got {value!r}")
    return value


def _convert_to_one_of(value: Any, alternatives: tuple[Any, ...], where: str) -> Any:
    """The value as the first of several types that it fits."""
    if value is None and type(None) in alternatives:
        return None
    complaints = []
    for alternative in alternatives:
        if alternative is not type(None):
            try:
                return _convert(value, alternative, where)
            except UsageError as error:
                complaints.append(error)
    raise complaints[0]


_PLAIN = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
