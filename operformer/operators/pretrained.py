"""Operators from files, or by the names of those that come with the library: `operformer.load("lorenz-tno")`."""

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


SHIPPED = Path(__file__).parents[1] / "models"  # NAME/config.json, model.safetensors and the card, README.md


def load(folder: str | Path) -> Operator:
    """The operator that `Operator.save_pretrained` wrote to a folder, in evaluation mode, on the CPU.

    A name of `shipped_names` is that model of the library, unless there is a folder of that name.
    """
    folder = _place(folder)
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
    operator.to(weights["input_mean"].dtype).load_state_dict(weights)
    return operator.eval()


def shipped_names() -> list[str]:
    """The models that come with the library."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/config.json"))


def _place(folder: str | Path) -> Path:
    """The folder itself, or that of a shipped model."""
    if Path(folder).is_dir():
        return Path(folder)
    if str(folder) in shipped_names():
        return SHIPPED / folder
    known = ", ".join(shipped_names()) or "none"
    remedy = f"give one that save_pretrained wrote, or a model that comes with the library ({known})"
    raise DataError(f"there is no folder {folder}; {remedy}, or use from_pretrained")


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
    """Finite numbers of the normalisation's kind; where that is float32, weights may have been stored in float16."""
    kind = weights["input_mean"].dtype
    for name, tensor in weights.items():
        is_stored_half = tensor.dtype == torch.float16 and kind == torch.float32
        if kind not in DTYPES or not (tensor.dtype == kind or is_stored_half):
            raise DataError(f"{path} holds {tensor.dtype} in {name}, where one kind of numbers belongs; restore it")
        if not bool(torch.isfinite(tensor).all()):
            raise DataError(f"{path} holds a value in {name} that is not finite; restore it from a copy")
