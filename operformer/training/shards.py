"""Tensors that several processes hold in shards, and the same tensors whole."""

from __future__ import annotations

from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor


def whole(tensor: Tensor) -> Tensor:
    """A tensor without its shards, on the CPU; all processes take part."""
    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().cpu().contiguous()


def sharded_like(full: Tensor, target: Tensor) -> Tensor:
    """A whole tensor on the device of another one, and in its shards if it has any."""
    moved = full.to(target.device)
    if isinstance(target, DTensor):
        # Every process has read the whole tensor, in an order of its own: nothing is exchanged.
        return distribute_tensor(moved, target.device_mesh, target.placements, src_data_rank=None)
    return moved
