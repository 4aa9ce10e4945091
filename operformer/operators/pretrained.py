"""Operators from files, or by the names of those that come with the library: `operformer.load("lorenz-tno")`."""

# DESIGN.md: What is derived carries the hash of its weights

from __future__ import annotations

import warnings
from collections.abc import Mapping
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_tensors
from torch import Tensor

from operformer.checking import checked
from operformer.errors import DataError, OperformerWarning, ResourceError, UsageError
from operformer.files import check_file, read_bytes, read_json
from operformer.operators.baselines import AFNO, FNO, GalerkinTransformer
from operformer.operators.codomain import CodomainNO
from operformer.operators.earlier import today, today_names, with_hard_patches
from operformer.operators.fano import FANO
from operformer.operators.operator import Operator
from operformer.operators.spectral import SpectralOperator
from operformer.operators.tno import TNO, Transformer, UniversalTNO
from operformer.operators.vitno import ViTNO
from operformer.operators.wrappers import WRAPPERS
from operformer.settings import choose, construct

OPERATORS: dict[str, type[Operator]] = {
    "TNO": TNO,
    "UniversalTNO": UniversalTNO,
    "ViTNO": ViTNO,
    "FANO": FANO,
    "SpectralOperator": SpectralOperator,
    "Transformer": Transformer,
    "CodomainNO": CodomainNO,
    "FNO": FNO,
    "AFNO": AFNO,
    "GalerkinTransformer": GalerkinTransformer,
}


# Until 0.2.0, whose files do not name their version.
_EARLIER_SOURCES = (
    "this TNO was saved when sources were some of the points; they are averages over cells now, so its output differs; "
    "train it again, or set operator.sources = None"
)
SCALES = ("input_scale", "output_scale", "domain_extent")  # what would lose every value if it were 0
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


SHIPPED = Path(__file__).parents[1] / "models"  # NAME/config.json, model.safetensors and the card, README.md


@checked
def load(folder: str | Path) -> Operator:
    """The operator that `Operator.save_pretrained` wrote to a folder, in evaluation mode, on the CPU.

    Args:
        folder: the folder, or the name of a model that comes with the library, unless there is a folder of that name.
            `operformer models` lists them.

    Returns:
        The operator; physical units in and out.

    Example:
        >>> operator = load("lorenz-tno")
        >>> operator(torch.rand(3, 1, 101), Grid.uniform(101, bounds=[(0.0, 2.0)])).shape
        torch.Size([3, 1, 101])
    """
    return load_hashed(folder)[0]


def load_hashed(folder: str | Path) -> tuple[Operator, str]:
    """The operator of a folder, as `load` gives it, and the hash of exactly these weights and settings.

    What is derived from an operator carries the hash, and is refused once the folder holds another; see
    `weights_hash`.
    """
    folder = _place(folder)
    if not (folder / "config.json").is_file() and (folder / "operator" / "config.json").is_file():
        raise DataError(f"{folder} is the folder of a run; its operator is in {folder / 'operator'}")
    config = _read_config(folder / "config.json")
    # Without memory first: a file may describe more than it holds.
    with torch.device("meta"):
        described = _build(config, folder / "config.json")
    path = folder / "model.safetensors"
    is_earlier = "wrappers" not in config
    _check_shapes(described, tensor_shapes(path), path, is_earlier)
    content = read_bytes(path)
    weights = _tensors(content, path)
    if is_earlier:
        weights = today_names(weights, len(described.wrappers))
    kind = _checked_kind(weights, path)
    with torch.random.fork_rng(devices=[]):  # first weights are drawn on the CPU, and not kept
        operator = _build(config, folder / "config.json")
    operator.to(kind).load_state_dict(weights)
    if "version" not in config and config["settings"].get("sources") is not None:
        warnings.warn(_EARLIER_SOURCES, OperformerWarning, stacklevel=3)
    return operator.eval(), _hash(folder / "config.json", content)


def weights_hash(folder: Path) -> str:
    """The hash of the weights and settings that a folder holds now."""
    return _hash(folder / "config.json", read_bytes(folder / "model.safetensors"))


def check_weights(made: str, path: Path, now: str, command: str) -> None:
    """Refuse what was made from other weights than those there are now; what says nothing of its own is taken."""
    if made and made != now:
        raise DataError(f"{path} was made from other weights than there are now; run: {command}")


def _hash(config: Path, weights: bytes) -> str:
    """Of both files: the same weights with other settings are another operator."""
    parts = (sha256(content).digest() for content in (read_bytes(config), weights))
    return sha256(b"".join(parts)).hexdigest()


def make_operator(settings: Mapping[str, Any], where: str, **fixed: Any) -> Operator:
    """A fresh operator from plain values: ``name``, ``wrappers`` if it has any, and its constructor's settings.

    ``fixed`` are settings that something else decides, used if the constructor has them; ``where`` is for messages.
    """
    values = dict(settings)
    name, values, wrappers = today(values.pop("name", None), values)
    make = choose(OPERATORS, name, f"{where}.name")
    known = signature(make).parameters
    operator = construct(make, values, where, **{key: value for key, value in fixed.items() if key in known})
    for wrapper in wrappers:
        operator = choose(WRAPPERS, wrapper, f"{where}.wrappers")(operator)
    return operator


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
    return _tensors(read_bytes(path, most), path)


def _tensors(content: bytes, path: Path) -> dict[str, Tensor]:
    try:
        return load_tensors(content)
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
    except OSError as error:
        raise DataError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except (SafetensorError, ValueError) as error:
        raise DataError(f"{path} is damaged ({error}); restore it from a copy") from None


def _read_config(path: Path) -> dict[str, Any]:
    config = read_json(path)
    if not isinstance(config, dict) or not isinstance(config.get("settings"), dict):
        raise DataError(f"{path} describes no operator: it has no settings; restore it from a copy")
    return config


def _build(config: dict[str, Any], path: Path) -> Operator:
    try:
        settings = with_hard_patches(config.get("operator"), config["settings"])
        described = {"wrappers": config.get("wrappers", ()), **settings, "name": config.get("operator")}
        return make_operator(described, "settings")
    except ResourceError:  # a package that is not installed is not the file's fault
        raise
    except (UsageError, TypeError, KeyError, AttributeError, ValueError, RuntimeError) as error:
        raise DataError(f"{path} describes no operator: {error}") from None


def _check_shapes(described: Operator, found: dict[str, tuple[int, ...]], path: Path, is_earlier: bool) -> None:
    expected = {name: tuple(t.shape) for name, t in described.state_dict().items()}
    if is_earlier:
        found = today_names(found, len(described.wrappers))
    if expected != found:
        wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        raise DataError(f"{path} does not fit its config.json: {wrong[0]} and {len(wrong) - 1} more differ")


def _checked_kind(weights: dict[str, Tensor], path: Path) -> torch.dtype:
    """The normalisation's kind of numbers, after all were compared with it; float32 may be stored in float16."""
    kind = next(tensor.dtype for name, tensor in weights.items() if name.endswith("input_mean"))
    for name, tensor in weights.items():
        is_stored_half = tensor.dtype == torch.float16 and kind == torch.float32
        if kind not in DTYPES or not (tensor.dtype == kind or is_stored_half):
            raise DataError(f"{path} holds {tensor.dtype} in {name}, where one kind of numbers belongs; restore it")
        if not bool(torch.isfinite(tensor).all()):
            raise DataError(f"{path} holds a value in {name} that is not finite; restore it from a copy")
        if name.endswith(SCALES) and bool((tensor == 0).any()):
            raise DataError(f"{path} holds 0 in {name}, which divides or multiplies; restore it from a copy")
    return kind
