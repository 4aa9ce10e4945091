"""Operators on the Hugging Face Hub: the folder of `Operator.save_pretrained`, there and back.

Only settings in JSON, weights in safetensors and a card travel: what is fetched from others cannot run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from operformer.checking import checked
from operformer.errors import DataError, ResourceError, UsageError
from operformer.operators.operator import Operator
from operformer.operators.pretrained import load
from operformer.sharing.card import check_card

FILES = ["config.json", "model.safetensors"]
CARD = "README.md"
_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@checked
def push_to_hub(
    operator: Operator | str | Path, name: str, private: bool = False, message: str = "Upload operator"
) -> str:
    """Upload an operator, or a folder that it was saved to with its card, to ``owner/name``; the address it has there.

    The repository is made if it does not exist. Nothing else of the folder is sent.
    """
    _check_name(name)
    hub = _import_hub()
    with TemporaryDirectory() as made, _one_line(hub, f"cannot upload to {name}"):
        folder = Path(made)
        if isinstance(operator, Operator):
            operator.save_pretrained(folder)
        else:
            folder = Path(operator)
            load(folder)  # what does not load here would not load elsewhere
            if (folder / CARD).is_file():
                check_card(folder / CARD)
        api = hub.HfApi()
        address = str(api.create_repo(name, private=private, exist_ok=True))
        api.upload_folder(repo_id=name, folder_path=folder, allow_patterns=[*FILES, CARD], commit_message=message)
        return address


@checked
def from_pretrained(name: str | Path, revision: str | None = None) -> Operator:
    """The operator of a folder, or of ``owner/name`` on the Hub, in evaluation mode, on the CPU.

    A folder of that name comes first. ``revision`` is a branch, a tag or a commit; a commit never changes.
    """
    if Path(name).is_dir():
        return load(name)
    _check_name(str(name))
    hub = _import_hub()
    with _one_line(hub, f"cannot fetch {name}"):
        folder = hub.snapshot_download(str(name), revision=revision, allow_patterns=FILES)
    return load(folder)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"an operator on the Hub is called owner/name, such as me/darcy-fano: got {name!r}")


def _import_hub() -> Any:
    try:
        import huggingface_hub.errors  # which the package does not import by itself
    except ImportError as error:
        raise ResourceError(
            f"the Hub needs huggingface_hub, not installed here ({error}); try: pip install 'operformer[hub]'"
        ) from None
    return huggingface_hub


@contextmanager
def _one_line(hub: Any, what: str) -> Iterator[None]:
    """What the Hub and the way there answer, as errors of ours: no access or no network, or no such operator."""
    errors = hub.errors
    try:
        yield
    except (DataError, ResourceError):
        raise
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise DataError(f"{what}: {_first_line(error)}; check its name, or log in with: hf auth login") from None
    except (*errors.HfHubHTTPError.__bases__, ValueError) as error:  # that of its HTTP library, and OSError
        raise ResourceError(f"{what}: {_first_line(error)}; check the network, or log in with: hf auth login") from None


def _first_line(error: Exception) -> str:
    return next((line.strip(" .") for line in str(error).splitlines() if line.strip()), type(error).__name__)
