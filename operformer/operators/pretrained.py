"""Operators from files: `operformer.load(folder)`."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_tensors
from torch import Tensor

from operformer.errors import DataError, ResourceError, UsageError
from operformer.files import check_file, read_bytes, read_json
from operformer.operators.baselines import AFNO, FNO, GalerkinTransformer
from operformer.operators.codomain import CodomainNO
from operformer.operators.fano import FANO
from operformer.operators.operator import Operator
from operformer.operators.tno import TNO, UniversalTNO
from operformer.operators.transformer import Transformer
from operformer.operators.vitno import ViTNO
from operformer.settings import choose, construct

OPERATORS: dict[str, type[Operator]] = {
    "TNO": TNO,
    "UniversalTNO": UniversalTNO,
    "ViTNO": ViTNO,
    "FANO": FANO,
    "Transformer": Transformer,
    "CodomainNO": CodomainNO,
    "FNO": FNO,
    "AFNO": AFNO,
    "GalerkinTransformer": GalerkinTransformer,
}


DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def load(folder: str | Path) -> Operator:
    """The operator that `Operator.save_pretrained` wrote to a folder, in evaluation mode, on the CPU."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; give one that save_pretrained wrote, or use from_pretrained")
    if not (folder / "config.json").is_file() and (folder / "operator" / "config.json").is_file():
        raise DataError(f"{folder} is the folder of a run; its operator is in {folder / 'operator'}")
    # Without memory first: a file may describe more than it holds.
    with torch.device("meta"):
        described = _build(folder / "config.json")
    path = folder / "model.safetensors"
    _check_shapes({name: tuple(t.shape) for name, t in described.state_dict().items()}, tensor_shapes(path), path)
    weights = read_tensors(path)
    _check_weights(weights, path)
    with torch.random.fork_rng(devices=[]):  # first weights are drawn on the CPU, and not kept
        operator = _build(folder / "config.json")
    dtype = weights["input_mean"].dtype
    operator.to(dtype).load_state_dict(weights)
    return operator.eval()


def read_tensors(path: Path, most: int | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file of at most so many bytes."""
    try:
        return load_tensors(read_bytes(path, most))
    except (SafetensorError, KeyError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is damaged ({error}); restore it from a copy") from None


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a safetensors file, from its header alone."""
    check_file(path)
    try:
        with safe_open(path, "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{path} is damaged ({error}); restore it from a copy") from None


def _build(path: Path) -> Operator:
    config = read_json(path)
    name = config.get("operator") if isinstance(config, dict) else None
    try:
        make = choose(OPERATORS, name, "operator")
        return construct(make, config["settings"], "settings")
    except ResourceError:  # a package that is not installed is not the file's fault
        raise
    except (UsageError, TypeError, KeyError, AttributeError, ValueError, RuntimeError) as error:
        raise DataError(f"{path} describes no operator: {error}") from None


def _check_shapes(expected: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]], path: Path) -> None:
    if expected != found:
        wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        raise DataError(f"{path} does not fit its config.json: {wrong[0]} and {len(wrong) - 1} more differ")


def _check_weights(weights: dict[str, Tensor], path: Path) -> None:
    for name, tensor in weights.items():
        if tensor.dtype not in DTYPES or tensor.dtype != weights["input_mean"].dtype:
            raise DataError(f"{path} holds {tensor.dtype} in {name}, where one kind of numbers belongs; restore it")
        if not bool(torch.isfinite(tensor).all()):
            raise DataError(f"{path} holds a value in {name} that is not finite; restore it from a copy")
