"""What users call from Python is compared with its annotations first, as settings from files are (settings.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import ParamSpec, TypeVar

import torch

from operformer.errors import ResourceError, UsageError
from operformer.settings import check_name, converted, hints_of

P = ParamSpec("P")
T = TypeVar("T")
_VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which refuses arguments of another type than it says, and of names that it does not know.

    Numbers of numpy become Python's. Where memory runs out, that is a `ResourceError`.
    """
    form = signature(function)
    names = [name for name, one in form.parameters.items() if one.kind not in _VARIABLE and name != "self"]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():  # a graph holds no checks
            return function(*args, **kwargs)
        hints = hints_of(function)
        try:
            bound = form.bind(*args, **kwargs)
        except TypeError as error:
            title = function.__qualname__.removesuffix(".__init__")
            for key in kwargs:
                check_name(key, names, f"{title} has no argument {key}")
            raise UsageError(f"{title}: {error}") from None
        try:
            for name, value in bound.arguments.items():
                if form.parameters[name].kind is Parameter.VAR_KEYWORD:
                    continue
                if form.parameters[name].kind is Parameter.VAR_POSITIONAL:
                    bound.arguments[name] = tuple(converted(one, hints[name], name) for one in value)
                elif name in hints:
                    bound.arguments[name] = converted(value, hints[name], name)
            return function(*bound.args, **bound.kwargs)
        except (MemoryError, OverflowError, RuntimeError) as error:
            title = function.__qualname__.removesuffix(".__init__")
            if is_too_large(error) and torch.get_default_device().type != "meta":  # where nothing takes memory
                raise ResourceError(f"{title} needs more memory than there is; use smaller sizes") from None
            if "meta tensor" in str(error):
                raise UsageError(f"{title} was given tensors on the device meta, which hold no values") from None
            raise

    return call


def is_too_large(error: BaseException) -> bool:
    """Whether memory has run out, or was asked for in numbers beyond counting: torch says so in words."""
    told = ("allocate memory", "out of memory", "calculation overflowed", "multiplication overflow")
    return isinstance(error, MemoryError | OverflowError) or any(one in str(error) for one in told)


def as_device(device: torch.device | str) -> torch.device:
    """The device of that name, which must be there."""
    if isinstance(device, torch.device) and device.type == "cpu":
        return device
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        raise UsageError(f'device must be such as "cpu" or "cuda": got {device!r}') from None
    try:
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ResourceError(f'there is no device {found} here; use "cpu"') from None
    return found
