"""Plain values from JSON and TOML that others wrote: numbers that can be computed with, and lists that end."""

from __future__ import annotations

import json
import tomllib
from sys import float_info
from typing import Any, NoReturn

from operformer.errors import UsageError

LARGEST_NUMBER = 1e150  # of an error: its square must not overflow
DEEPEST = 32  # lists and tables in each other
TOO_LONG = "a number has more digits than 64 bits hold"


def parse_json(content: bytes | str, largest: float = float_info.max) -> Any:
    """The value of a JSON text, or a ValueError: for NaN, for numbers that are too large, for deep nesting."""

    def number(text: str) -> float:
        value = float(text)
        if not abs(value) <= largest:
            raise ValueError(f"{text[:40]} is larger than a number here, {largest:g}")
        return value

    try:
        value = json.loads(content, parse_constant=_refuse_constant, parse_int=_whole, parse_float=number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_depth(value, DEEPEST)
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text, or a ValueError as in `parse_json`; of its syntax, TOMLDecodeError."""
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:  # Python refuses to convert more than 4300 digits
        raise ValueError(TOO_LONG) from None
    _check_depth(value, DEEPEST)
    return value


def parse_value(text: str, where: str) -> Any:
    """A value of TOML that a user gives in a command; anything else is a text."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except ValueError as error:
        raise UsageError(f"{where} cannot be that: {error}") from None


def _whole(text: str) -> int:
    """A whole number of 64 bits."""
    if len(text) > 20 or not _has_64_bits(int(text)):
        raise ValueError(TOO_LONG)
    return int(text)


def _has_64_bits(number: int) -> bool:
    return -(2**63) <= number < 2**64


def _check_depth(value: Any, left: int) -> None:
    if isinstance(value, dict | list):
        if not left:
            raise ValueError("it is nested too deeply")
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, int) and not _has_64_bits(inner):
                raise ValueError(TOO_LONG)
            if isinstance(inner, dict | list):
                _check_depth(inner, left - 1)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
