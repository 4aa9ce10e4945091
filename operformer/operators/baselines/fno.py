"""The Fourier neural operator of Li et al., as neuraloperator has it: the baseline of Section 6.2."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from operformer.domain import Grid
from operformer.errors import ResourceError, UsageError
from operformer.operators.baselines.uniform import check_uniform, with_coordinates
from operformer.operators.operator import Operator, constructor_settings


class FNO(Operator):
    """neuralop.models.FNO with its own defaults, fed with (u(x), x) on a uniform grid.

    ``n_modes`` is neuraloperator's: 12 means the wave numbers -6, ..., 5, and 0, ..., 6 along the last axis. The points
    are taken as one period, so nodes and data that are not periodic make it an operator of first order in h. Even in
    float64 neuraloperator rounds the product with the weights to complex64. Good values: the defaults, the paper's.
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 128,
        n_layers: int = 4,
        n_modes: int | Sequence[int] = 12,
    ) -> None:
        settings = constructor_settings(locals())
        super().__init__(dim, in_channels, out_channels, settings)
        modes = (n_modes,) * dim if isinstance(n_modes, int) else tuple(n_modes)
        if len(modes) != dim or any(not isinstance(m, int) or m < 2 for m in modes):
            raise UsageError(f"n_modes must be at least 2 along each of {dim} axes: got {n_modes!r}")
        self.modes = modes
        self.network = _import_fno()(
            n_modes=modes,
            in_channels=in_channels + dim,
            out_channels=out_channels,
            hidden_channels=hidden_channels,
            n_layers=n_layers,
            positional_embedding=None,
        )
        # Complex parameters lose their imaginary part in .to(dtype) and have no place in our files: real pairs instead.
        self.spectral = nn.ParameterList(_as_pair(conv.weight) for conv in self.network.fno_blocks.convs)
        self.register_state_dict_post_hook(_drop_metadata)

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        check_uniform("FNO", grid, query)
        odd = [n for n in grid.shape[:-1] if n % 2]
        if odd:
            raise UsageError(
                f"neuraloperator shifts the modes of an axis with an odd number of points by one: got {grid}; use even "
                "numbers along all axes but the last"
            )
        weights = {
            f"fno_blocks.convs.{k}.weight.tensor": torch.view_as_complex(pair) for k, pair in enumerate(self.spectral)
        }
        return functional_call(self.network, weights, (with_coordinates(self, u, grid),))


def _drop_metadata(module: nn.Module, state: dict[str, Any], prefix: str, local_metadata: dict[str, Any]) -> None:
    """neuraloperator adds the arguments of its constructor, which are no tensors, to the weights."""
    state.pop("_metadata", None)


def _import_fno() -> Any:
    try:
        with warnings.catch_warnings():  # its import changes which warnings are shown, for the whole process
            warnings.simplefilter("ignore")
            from neuralop.models import FNO as NeuralopFNO
    except ImportError as error:
        raise ResourceError(
            f"FNO is neuraloperator's, which is not installed here ({error}); try: pip install 'operformer[baselines]'"
        ) from None
    return NeuralopFNO


def _as_pair(weight: Any) -> nn.Parameter:
    """The weights of a spectral convolution as real and imaginary parts; a placeholder is left in their place."""
    values = weight.tensor.detach()
    del weight.tensor
    weight.register_buffer("tensor", torch.empty(0), persistent=False)
    return nn.Parameter(torch.view_as_real(values).clone())
