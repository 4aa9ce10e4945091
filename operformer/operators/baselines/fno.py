"""The Fourier neural operator of Li et al., as neuraloperator has it: the baseline of Section 6.2."""

# DESIGN.md: FNO and AFNO are computed here

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from operformer.domain import Grid
from operformer.domain.products import exact_matmul
from operformer.errors import ResourceError, UsageError
from operformer.operators.baselines.uniform import UniformOperator, check_uniform, with_coordinates


class FNO(UniformOperator):
    """v <- a(M a(K v + b + W v) + g v) in every layer: (K v)^_k = R_k v^_k, M an MLP at each point, a GELU.

    neuralop.models.FNO with its own defaults and weights, fed with (u(x), x) on a uniform grid; computed here by real
    products, K for the modes that are kept. ``n_modes`` is neuraloperator's: 12 means the wave numbers
    -6, ..., 5, and 0, ..., 6 along the last axis, or those of them that the grid has. The points are taken as one
    period, so nodes and data that are not periodic make it an operator of first order in h. Good values: the defaults,
    the paper's.
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 128,
        *,
        n_layers: int = 4,
        n_modes: int | Sequence[int] = 12,
    ) -> None:
        super().__init__(dim, in_channels, out_channels, hidden_channels, n_layers)
        modes = (n_modes,) * dim if isinstance(n_modes, int) else tuple(n_modes)
        if len(modes) != dim or any(not isinstance(m, int) or m < 2 for m in modes):
            raise UsageError(f"n_modes must be at least 2 along each of {dim} axes: got {n_modes!r}")
        self.n_modes, self.modes = n_modes, modes
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

    @property
    def n_parameters(self) -> int:
        """The numbers that are learned; a complex one counts once, as in the paper's tables."""
        return super().n_parameters - sum(p.numel() for p in self.spectral) // 2

    def least_sizes(self, least: int) -> tuple[int, ...]:
        """Two points for each mode; neuraloperator counts k and -k."""
        return super().least_sizes(max(least, 2 * max(self.modes)))

    def transform(self, u: Tensor, grid: Grid, query: Grid | None) -> Tensor:
        """The operator in normalised units; see `Operator.forward`."""
        check_uniform("FNO", grid, query)
        v = with_coordinates(self, u, grid).movedim(1, -1)
        spectrum = self.on(grid, lambda: make_half_spectrum(grid.shape, self.modes, self.input_mean))
        return self._network(v, spectrum).movedim(-1, 1)

    def _network(self, v: Tensor, spectrum: HalfSpectrum) -> Tensor:
        """neuraloperator's forward pass, as its defaults have it: without GELU in the last layer; channels last."""
        blocks = self.network.fno_blocks
        v = _mlp(self.network.lifting, v)
        for layer, weight in enumerate(self.spectral):
            is_last = layer == len(self.spectral) - 1
            skip, gate = blocks.fno_skips[layer].conv, blocks.channel_mlp_skips[layer].weight.flatten()
            bias = blocks.convs[layer].bias.flatten()
            w = spectral_convolution(v, weight, spectrum, self.modes) + bias + _at_each_point(skip, v)
            w = _mlp(blocks.channel_mlp[layer], w if is_last else gelu(w)) + gate * v
            v = w if is_last else gelu(w)
        return _mlp(self.network.projection, v)


def _at_each_point(convolution: nn.Conv1d, v: Tensor) -> Tensor:
    """A convolution with a kernel of one point as a product of matrices: (..., in) -> (..., out)."""
    return linear(v, convolution.weight.squeeze(-1), convolution.bias)


def _mlp(module: Any, v: Tensor) -> Tensor:
    """neuraloperator's ChannelMLP with one GELU inside."""
    first, second = module.fcs
    return _at_each_point(second, gelu(_at_each_point(first, v)))


def spectral_convolution(v: Tensor, weight: Tensor, spectrum: HalfSpectrum, n_modes: Sequence[int]) -> Tensor:
    """Re sum_k c_k R_k v^_k e^{2 pi i k . x}: (batch, *shape, in) -> (batch, *shape, out), R (in, out, *modes, 2)."""
    real, imaginary = spectrum.analyse(v).unbind(1)
    # (x + i y)(a + i b): rows (x, -y) and (y, x) times (a, b), so that it is the small factor that is stored twice.
    rows = torch.stack([torch.stack([real, -imaginary]), torch.stack([imaginary, real])])
    kept = _of_the_grid(weight, spectrum, n_modes).flatten(2, -2)
    return spectrum.synthesise(torch.einsum("qpbki,iokp->bqko", rows, kept))


def _of_the_grid(weight: Tensor, spectrum: HalfSpectrum, n_modes: Sequence[int]) -> Tensor:
    """The weights of the modes that the grid has."""
    for axis, ((first, stop), m) in enumerate(zip(spectrum.wave_numbers, n_modes, strict=True), 2):
        if stop - first < weight.shape[axis]:
            at_zero = 0 if axis == len(n_modes) + 1 else m // 2
            weight = weight.narrow(axis, at_zero + first, stop - first)
    return weight


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


@dataclass(frozen=True, eq=False)
class HalfSpectrum:
    """v^_k = 1/N sum_j v(x_j) e^{-2 pi i k . x_j} and Re sum_k c_k v^_k e^{2 pi i k . x_j}, x_j equispaced in a period.

    Along the last axis k is 0, 1, ..., with c_k = 1 at 0 and at half the number of points, 2 between: k stands for -k,
    too. Complex numbers are an axis (real, imaginary) of length 2. It stands before the modes and behind the points, so
    that a complex product along an axis is one with a real matrix, a rotation for each mode and point. Channels come
    last and are carried along.
    """

    wave_numbers: tuple[tuple[int, int], ...]  # the first one, and one more than the last
    analysis: tuple[Tensor, ...]  # (2 modes, 2 points), that of the last axis (2 modes, points)
    synthesis: tuple[Tensor, ...]  # (2 points, 2 modes), that of the last axis (points, 2 modes)

    def analyse(self, v: Tensor) -> Tensor:
        """(batch, *points, c) -> (batch, 2, modes, c), the modes of all axes flattened; the last axis first."""
        *others, last = self.analysis
        w = torch.matmul(last, v).flatten(-2)
        for matrix in reversed(others):
            w = torch.matmul(matrix, w.unflatten(-1, (2, -1)).flatten(-3, -2)).flatten(-2)
        return w.unflatten(-1, (2, -1, v.shape[-1]))

    def synthesise(self, coefficients: Tensor) -> Tensor:
        """(batch, 2, modes, c) -> (batch, *points, c); what TF32 would round there is noise to the H1 norm."""
        *others, last = self.synthesis
        w = coefficients.flatten(1)
        for matrix in others:
            points, modes = matrix.shape
            w = exact_matmul(matrix, w.unflatten(-1, (modes, -1)))
            w = w.unflatten(-2, (points // 2, 2)).flatten(-2)
        return exact_matmul(last, w.unflatten(-1, (-1, coefficients.shape[-1])))


def make_half_spectrum(shape: Sequence[int], n_modes: Sequence[int], like: Tensor) -> HalfSpectrum:
    """The modes that a number of points resolves, at most ``n_modes``, in the dtype and on the device of ``like``.

    m modes of an axis are -(m // 2), ..., m - m // 2 - 1, and of the last one 0, ..., m // 2.
    """
    *others, last = zip(shape, (min(n, m) for n, m in zip(shape, n_modes, strict=True)), strict=True)
    wave_numbers, analysis, synthesis = [], [], []
    for n, m in others:
        wave_numbers.append((-(m // 2), m - m // 2))
        cosine, sine = _waves(n, *wave_numbers[-1], like)
        rotation = torch.stack([torch.stack([cosine, sine], -1), torch.stack([-sine, cosine], -1)])
        rotation = rotation.flatten(-2).flatten(0, 1)
        analysis.append((rotation / n).to(like.dtype))
        synthesis.append(rotation.T.to(like.dtype))
    n, m = last
    wave_numbers.append((0, m // 2 + 1))
    cosine, sine = _waves(n, *wave_numbers[-1], like)
    waves = torch.stack([cosine, -sine])
    is_end = torch.arange(m // 2 + 1, device=like.device) * 2 % n == 0
    analysis.append((waves.flatten(0, 1) / n).to(like.dtype))
    synthesis.append((waves * torch.where(is_end, 1.0, 2.0).unsqueeze(-1)).flatten(0, 1).T.to(like.dtype))
    return HalfSpectrum(tuple(wave_numbers), tuple(analysis), tuple(synthesis))


def _waves(n_points: int, first: int, stop: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of 2 pi k j / n, in float64, the angle reduced in whole numbers: (modes, points) each."""
    k = torch.arange(first, stop, device=like.device)
    j = torch.arange(n_points, device=like.device)
    angles = 2 * torch.pi / n_points * (k.unsqueeze(-1) * j % n_points).double()
    return torch.cos(angles), torch.sin(angles)
