"""What the processes of test_ranks.py do: updates and short trainings of each operator, their results in files."""

import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from operformer import FANO, TNO, Grid, ViTNO
from operformer.domain import Samples
from operformer.errors import OperformerError
from operformer.evaluation.loss import LOSSES
from operformer.operators.baselines import FNO
from operformer.training.batches import shares
from operformer.training.checkpoint import State
from operformer.training.loop import Training, train
from operformer.training.ranks import Ranks
from operformer.training.schedule import Cosine
from operformer.training.update import Update

PATCHED = {"n_patches": (2, 2), "n_modes": 3, "hidden_channels": 6, "n_layers": 2, "n_heads": 2}
MAKE = {
    "TNO": lambda: TNO(2, 1, 1, hidden_channels=6, n_layers=2, n_heads=2),
    "ViTNO": lambda: ViTNO(in_channels=1, out_channels=1, **PATCHED),
    "FANO": lambda: FANO(in_channels=1, out_channels=1, **PATCHED),
    "FNO": lambda: FNO(2, 1, 1, n_modes=3, hidden_channels=6, n_layers=2),
}


class Kept(torch.optim.SGD):
    """Leaves the weights and the gradients as they are."""

    def step(self, closure=None):
        pass

    def zero_grad(self, set_to_none=True):
        pass


def samples(count, dtype):
    grid = Grid.uniform((6, 6), kind="cells")
    u = torch.randn(count, 1, 6, 6, dtype=dtype, generator=torch.Generator().manual_seed(3))
    return Samples(u, u.cumsum(-1) / 6 + 1, grid)


def operator(kind, dtype):
    torch.manual_seed(7)
    return MAKE[kind]().to(dtype)


def gradients(kind, dtype, count, parts):
    """The gradient of a batch of so many pairs, and the sum of their losses."""
    ranks = Ranks(Training(device="cpu"))
    given = operator(kind, dtype)
    module = ranks.setup(given, is_compiled=False)
    optimizer = Kept(given.parameters(), 0.1)
    update = Update(ranks, module, State(given, optimizer, Cosine(optimizer, 3)), "h1", 1e30)
    pairs = samples(count, dtype)
    own = shares(torch.arange(count), ranks.rank, ranks.world, parts)
    (loss,) = update([(pairs[chosen], len(places)) for places, chosen in own], count, [])
    found = {name: p.grad.clone() for name, p in given.named_parameters()}
    return found | {"loss": torch.tensor([loss], dtype=torch.float64)}


def write_gradients(folder, rank):
    for kind in MAKE:
        for dtype in (torch.float32, torch.float64):
            for count, parts in ((5, 1), (7, 2), (1, 1)):
                found = gradients(kind, dtype, count, parts)
                save_file(found, folder / f"{kind}-{dtype}-{count}-{parts}-{rank}.safetensors")


def carry_out(kind, folder, strategy, pairs, schedule="cosine", epochs=3):
    settings = Training(
        epochs=epochs, batch_size=5, learning_rate=1e-2, schedule=schedule, device="cpu", ema=0.9, strategy=strategy
    )  # fmt: skip
    train(operator(kind, torch.float64), pairs[:13], pairs[13:], settings, folder)


def spoil(rank, update):
    """A loss of the last process that is not finite in the given update."""
    original, calls = LOSSES["l2"], []

    def spoilt(prediction, z, grid):
        calls.append(prediction.requires_grad)
        loss = original(prediction, z, grid)
        return loss * torch.nan if rank == int(os.environ.get("WORLD_SIZE", 1)) - 1 and sum(calls) == update else loss

    LOSSES["l2"] = spoilt


def write_complaint(path, folder, pairs):
    try:
        carry_out("TNO", folder, "ddp", pairs)
    except OperformerError as error:
        path.write_text(f"{error.exit_code} {error}")


def main(folder, strategies):
    folder.mkdir(parents=True, exist_ok=True)
    rank = Ranks(Training(device="cpu")).rank
    write_gradients(folder, rank)
    for strategy in strategies:
        for kind in MAKE:
            carry_out(kind, folder / strategy / kind, strategy, samples(18, torch.float64))
        for epochs in (1, 3):  # stopped after the first, and gone on
            pairs = samples(18, torch.float64)
            carry_out("FANO", folder / strategy / "resumed", strategy, pairs, "plateau", epochs)
    spoilt = samples(18, torch.float64)
    spoilt.z[2] = torch.inf
    write_complaint(folder / f"spoilt-{rank}", folder / "spoilt", spoilt)
    (folder / "file").write_text("")
    write_complaint(folder / f"unwritable-{rank}", folder / "file" / "below", samples(18, torch.float64))
    huge = samples(18, torch.float64)
    huge.u[-1] = 1e308  # the last validation pair, so the last process's
    write_complaint(folder / f"validation-{rank}", folder / "validation", huge)
    spoil(rank, update=5)
    write_complaint(folder / f"diverged-{rank}", folder / "diverged", samples(18, torch.float64))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
