"""The Fourier attention neural operator, FANO (Section 4.4, Appendix B.3), computed in coefficient space."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import Tensor, nn

from operformer.domain import Grid
from operformer.domain.patches import make_patches
from operformer.domain.transform import make_transform
from operformer.operators.attention import check_heads
from operformer.operators.composition import read
from operformer.operators.encoder import EncoderLayer, NormPlace, PointwiseHead, PointwiseLift, checked_norm
from operformer.operators.integral import BasisName, make_spectrum
from operformer.operators.operator import Operator, constructor_settings
from operformer.operators.patched import LastLayers, SmoothingName, check_patches, refuse_query
from operformer.operators.patched_attention import Coefficients, FourierAttention, FourierValue


class FANO(Operator):
    """G = T_out o E_L o T_in with attention between patches whose Q, K, V are Fourier integral operators.

    Any grid will do: the partition belongs to D, and each patch has its own points and weights. ``n_modes`` = m keeps
    |k_j| < m. Good values: patches of about 32 points along each axis, 9 modes, ``final_modes=64``, as in the paper;
    ``periodic_extension`` or the cosine basis where patches are not periodic. One patch, all of D, has nothing to
    attend to: attention is then W_MultiHead V, and ``n_heads`` changes nothing. ``isotropic`` kernels know no
    direction of the unit cube that D is scaled to, have few weights and learn elliptic problems from few pairs; they
    are not meant for flows. ``norm``, ``waves`` and ``adds_input`` are as in the TNO.
    """

    def __init__(
        self,
        n_patches: Sequence[int],
        n_modes: int | Sequence[int],
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 128,
        n_layers: int = 6,
        n_heads: int = 8,
        basis: BasisName = "fourier",
        periodic_extension: bool = False,
        final_modes: int = 0,
        smoothing: SmoothingName = "none",
        learnable_skips: bool = False,
        norm: NormPlace = "after",
        waves: int = 0,
        adds_input: bool = False,
        isotropic: bool = False,
    ) -> None:
        settings = constructor_settings(locals())
        dim = len(check_patches(n_patches))
        super().__init__(dim, in_channels, out_channels, settings)
        check_heads(hidden_channels, n_heads)
        self.n_patches = tuple(n_patches)
        self.spectrum = make_spectrum(basis, periodic_extension, n_modes, n_patches, isotropic)
        self.lift = PointwiseLift(in_channels, dim, hidden_channels, waves)
        self.layers = nn.ModuleList(
            EncoderLayer(
                FourierAttention(hidden_channels, n_heads, self.spectrum)
                if prod(n_patches) > 1
                else FourierValue(hidden_channels, self.spectrum),
                hidden_channels,
                learnable_skips,
                checked_norm(norm),
            )
            for _ in range(n_layers)
        )
        self.head = PointwiseHead(hidden_channels, out_channels, norm)
        self.last = LastLayers(dim, out_channels, final_modes, smoothing)

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        refuse_query(query, "FANO")
        patches = make_patches(grid, self.n_patches)
        transform = make_transform(patches, self.spectrum.basis, self.spectrum.n_modes, u)
        measure = Coefficients(transform, 1 / prod(self.n_patches), patches.is_present)
        x = self.position(grid)
        v = patches.split(self.lift(u.flatten(2).transpose(1, 2), x).unflatten(1, grid.shape))
        z = read(self.head, self.layers, v, measure, x, patches.join)
        return self.last(z, grid).movedim(-1, 1)
