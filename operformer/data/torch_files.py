"""Tensors that torch.save wrote, as neuraloperator's darcy_train_16.pt, read without unpickling.

torch.load has run code from files even with weights_only (CVE-2025-32434, CVE-2026-24747). Here `pickletools.genops`
cuts the pickle in the archive into opcodes, which runs nothing. The few opcodes that a dict, list or tuple of plain
tensors needs are followed. Any other opcode refuses the file, and so does a name outside `_STORAGES` and two others.
"""

# DESIGN.md: Files of others execute nothing

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from operformer.data.contents import LARGEST_RATIO, Array, Contents, Loaded, refusing_damage
from operformer.errors import DataError
from operformer.text import shown

LONGEST_PICKLE = 2**20  # some thousand tensors
_STORAGES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
}


@contextmanager
def open_torch(path: Path) -> Iterator[Contents]:
    """The tensors of a dict by their keys, or of a list or tuple by their position."""
    with refusing_damage(path), zipfile.ZipFile(path) as archive:
        value = _Machine(_Archive(path, archive)).run()
        if isinstance(value, Loaded):
            value = [value]
        if isinstance(value, list | tuple):
            value = dict(enumerate(value))
        if not isinstance(value, dict):
            raise DataError(f"{path} holds no dict, list or tuple of tensors; save one, such as {{'x': x, 'y': y}}")
        tensors = {str(name): tensor for name, tensor in value.items() if isinstance(tensor, Loaded)}
        arrays: dict[str, Array] = {name: tensor for name, tensor in tensors.items() if tensor.dtype.kind != "c"}
        complex_ = "holds complex values; store real and imaginary parts as channels"
        refused = {name: complex_ for name in tensors if name not in arrays}
        yield Contents(path, arrays, refused)


def is_torch(path: Path) -> bool:
    """Whether a zip file is one that torch.save writes."""
    with refusing_damage(path), zipfile.ZipFile(path) as archive:
        return any(name.endswith("data.pkl") for name in archive.namelist())


class _Archive:
    """The members of the zip file that torch.save writes: data.pkl and the storages, none of them packed."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self._archive = path, archive
        self._members = {info.filename: info for info in archive.infolist()}
        if len(self._members) < len(archive.infolist()):
            raise DataError(f"{path} holds a member twice; save it again with torch.save")
        pickles = [name for name in self._members if name.endswith("data.pkl")]
        if len(pickles) != 1:
            raise DataError(f"{path} holds {len(pickles)} pickles, where torch.save writes one; save it again")
        self._root = pickles[0].removesuffix("data.pkl")
        self.size = path.stat().st_size
        if self._root + "byteorder" in self._members and self.member("byteorder") != b"little":
            raise DataError(f"{path} was written on a big-endian machine; save it again on another")
        if self.stored_size("data.pkl") > LONGEST_PICKLE:
            raise DataError(f"{path} has a pickle too long for tensors alone; save fewer at a time, or an .npz")

    def member(self, name: str) -> bytes:
        self.stored_size(name)
        return self._archive.read(self._root + name)

    def stored_size(self, name: str) -> int:
        info = self._members.get(self._root + name)
        if info is None or info.compress_type != zipfile.ZIP_STORED or info.file_size > self.size:
            raise DataError(f"{self.path} has no {shown(name)} as torch.save writes it; it is damaged, restore it")
        return info.file_size


@dataclass(frozen=True)
class _Storage:
    """A row of numbers in the archive."""

    key: str
    dtype: torch.dtype
    count: int


@dataclass(frozen=True)
class _Name:
    """What a pickle calls a function or a class; it stands for itself and is never looked up."""

    text: str


_MARK = _Name("the mark of a pickle")
_DICT, _TENSOR = _Name("collections OrderedDict"), _Name("torch._utils _rebuild_tensor_v2")


class _Machine:
    """A stack, a memo and the opcodes that plain tensors need."""

    def __init__(self, archive: _Archive) -> None:
        self._archive = archive
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        for opcode, argument, _ in pickletools.genops(self._archive.member("data.pkl")):
            if opcode.name == "STOP":
                return self._stack.pop()
            self._do(opcode.name, argument)
        raise self._refusal("its pickle has no end")

    def _do(self, opcode: str, argument: Any) -> None:
        stack, memo = self._stack, self._memo
        match opcode:
            case "PROTO" | "FRAME":
                pass
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT" | "BINUNICODE" | "SHORT_BINUNICODE":
                stack.append(argument)
            case "NONE" | "NEWTRUE" | "NEWFALSE" | "MARK":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": _MARK}[opcode])
            case "EMPTY_DICT" | "EMPTY_LIST" | "EMPTY_TUPLE":
                stack.append({"EMPTY_DICT": {}, "EMPTY_LIST": [], "EMPTY_TUPLE": ()}[opcode])
            case "GLOBAL":
                stack.append(self._name(argument))
            case "STACK_GLOBAL":
                name, module = stack.pop(), stack.pop()
                is_text = isinstance(name, str) and isinstance(module, str)
                stack.append(self._name(f"{module} {name}" if is_text else ""))
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                if argument not in memo:
                    raise self._refusal("its pickle is damaged")
                stack.append(memo[argument])
            case "TUPLE":
                stack.append(tuple(self._since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._last(int(opcode[-1]))))
            case "APPEND" | "APPENDS":
                items = self._last(1) if opcode == "APPEND" else self._since_mark()
                if not isinstance(stack[-1], list):
                    raise self._refusal("its pickle appends to what is no list")
                stack[-1].extend(items)
            case "SETITEM" | "SETITEMS":
                items = self._last(2) if opcode == "SETITEM" else self._since_mark()
                if not isinstance(stack[-1], dict) or len(items) % 2:
                    raise self._refusal("its pickle sets items of what is no dict")
                if not all(isinstance(key, str | int) for key in items[::2]):
                    raise self._refusal("a key of its dict is no text")
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case "BINPERSID":
                stack.append(self._storage(stack.pop()))
            case "REDUCE":
                arguments, name = stack.pop(), stack.pop()
                stack.append(self._call(name, arguments))
            case _:
                raise self._refusal(f"its pickle has the opcode {opcode}")

    def _name(self, text: str) -> _Name:
        """Names stand for themselves; those not known are refused at once."""
        module, _, name = text.partition(" ")
        if _Name(text) not in (_DICT, _TENSOR) and not (module == "torch" and name in _STORAGES):
            raise self._refusal(f"it asks for {shown(f'{module}.{name}')}")
        return _Name(text)

    def _last(self, count: int) -> list[Any]:
        items = self._stack[-count:]
        if len(items) != count or any(item is _MARK for item in items):
            raise self._refusal("its pickle is damaged")
        del self._stack[-count:]
        return items

    def _since_mark(self) -> list[Any]:
        for k in range(len(self._stack) - 1, -1, -1):  # from the end: a pickle may have a million marks
            if self._stack[k] is _MARK:
                items = self._stack[k + 1 :]
                del self._stack[k:]
                return items
        raise self._refusal("its pickle is damaged")

    def _call(self, name: Any, arguments: Any) -> Any:
        """OrderedDict() is a dict, _rebuild_tensor_v2(...) a view of a storage."""
        if name == _DICT and arguments == ():
            return {}
        if name == _TENSOR and isinstance(arguments, tuple) and len(arguments) in (6, 7):
            return self._tensor(*arguments[:4])
        raise self._something_else()

    def _storage(self, described: Any) -> _Storage:
        """("storage", torch.FloatStorage, key, device, count), checked against the archive."""
        match described:
            case ("storage", _Name(text), str(key), str(), int(count)) if text.removeprefix("torch ") in _STORAGES:
                dtype = _STORAGES[text.removeprefix("torch ")]
            case _:
                raise self._something_else()
        if count < 0 or self._archive.stored_size(f"data/{key}") != count * dtype.itemsize:
            raise self._refusal(f"the storage {shown(key)} is not of the size that its pickle claims")
        return _Storage(key, dtype, count)

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any) -> Loaded:
        if not isinstance(storage, _Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
            raise self._something_else()
        numbers = (offset, *shape, *strides)
        if any(type(n) is not int or n < 0 for n in numbers) or len(shape) != len(strides) or len(shape) > 8:
            raise self._something_else()
        reach = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        bytes_claimed = prod(shape) * storage.dtype.itemsize
        if (prod(shape) and reach >= storage.count) or bytes_claimed > LARGEST_RATIO * self._archive.size:
            size = shown(str(shape), quoted=False)
            raise self._refusal(f"a tensor of shape {size} reaches outside its storage of {storage.count} numbers")
        is_brief = storage.dtype == torch.bfloat16  # which numpy does not have
        dtype = torch.empty(0, dtype=torch.float32 if is_brief else storage.dtype).numpy().dtype

        def load() -> np.ndarray:
            raw = bytearray(self._archive.member(f"data/{storage.key}"))
            values = torch.frombuffer(raw, dtype=storage.dtype).as_strided(shape, strides, offset)
            return (values.float() if is_brief else values).numpy()

        return Loaded(shape, dtype, load)

    def _something_else(self) -> DataError:
        return self._refusal("its pickle builds something else")

    def _refusal(self, reason: str) -> DataError:
        return DataError(
            f"{self._archive.path} holds something else than plain tensors: {reason}; nothing of it was run, save the "
            "tensors alone or write an .npz"
        )
