"""The spectral operator: layers of integral operators on all of D, without attention."""

# DESIGN.md: One patch is not attention

from __future__ import annotations

from collections.abc import Sequence

from operformer.errors import UsageError
from operformer.operators.integral import AnyBasis
from operformer.operators.last import Last
from operformer.operators.patched import ModalOperator
from operformer.operators.patched_attention import SpectralMap


class SpectralOperator(ModalOperator):
    """G = T_out o E_L o T_in with integral operators in place of attention: v <- LayerNorm(v + W F^-1(R . F v)), ...

    This is what a FANO with a single patch, all of D, would be: nothing is attended to. Unlike an FNO it integrates by
    the weights of the grid, so it takes any grid. With `Isotropic` kernels it learns elliptic problems from few samples
    on one CPU core.

    Args:
        n_modes: modes along each axis of D, one number per axis, |k_j| < n_modes. Good values: 12 to 32.
        in_channels: components of the input function u.
        out_channels: components of the output function z.
        hidden_channels: width of the latent functions. Good values: 32 to 64.
        n_layers: layers. Good value: 4.
        basis: "fourier" on periodic domains, "cosine" on others, "isotropic-cosine" for elliptic problems,
            "extended-fourier", "isotropic-fourier", "legendre", or a value such as `Cosine()`.
        last: last layers. "dirichlet" is `Smoothing("dirichlet")` for outputs that are zero at the boundary;
            see `FANO`.
        waves: sines and cosines of the position along each axis that the lift sees. Good value: 8.

    Example:
        >>> operator = SpectralOperator(n_modes=(12, 12), in_channels=1, out_channels=1, basis="cosine")
        >>> z = operator(torch.rand(3, 1, 32, 32), Grid.uniform((32, 32), kind="cells"))
        >>> z.shape
        torch.Size([3, 1, 32, 32])
    """

    is_pointwise = True  # between integrals, each of which is over one sample's own points

    def __init__(
        self,
        n_modes: Sequence[int],
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 32,
        *,
        n_layers: int = 4,
        basis: AnyBasis | str = "fourier",
        last: Last = None,
        waves: int = 0,
    ) -> None:
        if not isinstance(n_modes, Sequence) or isinstance(n_modes, str) or not 1 <= len(n_modes) <= 3:
            raise UsageError(f"n_modes must be one number for each axis, such as (12, 12): got {n_modes!r}")
        super().__init__(
            (1,) * len(n_modes),
            n_modes,
            (in_channels, out_channels, hidden_channels),
            n_layers,
            basis,
            last,
            waves,
            lambda spectrum: SpectralMap(hidden_channels, spectrum),
        )
