"""The Fourier attention neural operator, FANO (Section 4.4, Appendix B.3), computed in coefficient space."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from operformer.errors import UsageError
from operformer.operators.integral import AnyBasis
from operformer.operators.last import Last
from operformer.operators.patched import GivenOverlap, ModalOperator, check_patches, read_overlap
from operformer.operators.patched_attention import FourierAttention


class FANO(ModalOperator):
    """G = T_out o E_L o T_in with attention between patches of D, whose Q, K, V are Fourier integral operators.

    Takes any grid: the partition belongs to D, and each patch has its own points and weights. With one patch there is
    nothing to attend to; use `SpectralOperator`.

    Args:
        n_patches: patches along each axis of D. Good value: patches of about 32 points along each axis.
        n_modes: modes along each axis of a patch, |k_j| < n_modes; one number or one per axis. Good value: 9.
        in_channels: components of the input function u.
        out_channels: components of the output function z.
        hidden_channels: width of the latent functions. Good values: 32 on a CPU, 128 in the paper.
        n_layers: encoder layers. Good values: 4 to 6.
        n_heads: attention heads; divides hidden_channels. Good values: 4 to 8.
        basis: "fourier", "extended-fourier" or "cosine" where patches are not periodic, "legendre",
            "isotropic-cosine" or "isotropic-fourier" for elliptic problems, or a value such as `Cosine()`.
        last: last layers on all of D. 64 is the paper's `SpectralResidual(64)`, "dirichlet" is
            `Smoothing("dirichlet")`; a tuple holds several, None none.
        waves: sines and cosines of the position along each axis that the lift sees. Good values: 0 (the paper), 8.
        overlap: how far patches reach into their neighbours on each side, as a part of a patch's side. What they
            compute is blended smoothly, so the output does not jump between them. 0 is the paper's;
            `Overlap(0.25, "periodic")` is for a torus.

    Example:
        >>> operator = FANO(n_patches=(2, 2), n_modes=4, in_channels=1, out_channels=1, hidden_channels=16)
        >>> z = operator(torch.rand(3, 1, 32, 32), Grid.uniform((32, 32), kind="cells"))
        >>> z.shape
        torch.Size([3, 1, 32, 32])
    """

    def __init__(
        self,
        n_patches: Sequence[int],
        n_modes: int | Sequence[int],
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 128,
        n_layers: int = 6,
        n_heads: int = 8,
        basis: AnyBasis | str = "fourier",
        last: Last = None,
        waves: int = 0,
        overlap: GivenOverlap = 0.25,
    ) -> None:
        patches = check_patches(n_patches)
        if prod(patches) == 1:
            raise UsageError(
                f"a FANO needs at least two patches to attend to: got n_patches={patches}; "
                "use more patches, or SpectralOperator, which has no attention"
            )
        super().__init__(
            patches,
            n_modes,
            (in_channels, out_channels, hidden_channels),
            n_layers,
            basis,
            last,
            waves,
            lambda spectrum: FourierAttention(hidden_channels, n_heads, spectrum),
            read_overlap(overlap),
        )
        self.n_patches, self.n_heads = patches, n_heads
