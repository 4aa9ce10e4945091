"""Two-dimensional incompressible flow on the torus [0, 2 pi]^2 in vorticity form (equation KF), pseudo-spectral.

omega_t = (d_yy - d_xx)(u v) + d_x d_y (u^2 - v^2) + nu Laplace omega - n cos(n y), u = psi_y, v = -psi_x,
-Laplace psi = omega: the curl of Navier-Stokes with the force sin(n y) along x. In this form the transport term takes
two transforms to points and two back. Wave numbers |k_j| < m are kept, on at least 3 m - 2 points a side: then products
of two functions have no alias among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi

import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.domain.transform import axis_points, expand
from operformer.errors import DivergedError, UsageError

TORUS = ((0.0, 2 * pi), (0.0, 2 * pi))


@dataclass(frozen=True)
class VorticityEquation:
    """The equation for ``n_modes`` = m, ``viscosity`` = nu and ``forcing`` = n. Without force, n = 0.

    A state is the spectrum c_k of omega = sum_k c_k exp(i k . x), k_y >= 0: (batch, n_points, m), complex128, zero
    for |k_x| >= m.
    """

    n_modes: int
    viscosity: float
    forcing: int = 4

    def __post_init__(self) -> None:
        if self.n_modes < 2:
            raise UsageError(f"n_modes must be at least 2: got {self.n_modes}")
        if not 0 <= self.viscosity < inf:
            raise UsageError(f"viscosity must not be negative, and finite: got {self.viscosity}")
        if not 0 <= self.forcing < self.n_modes:
            raise UsageError(f"forcing must be a wave number below n_modes: got {self.forcing} and {self.n_modes}")

    @property
    def grid(self) -> Grid:
        """The points on which products are taken."""
        return Grid.uniform((self.n_points,) * 2, bounds=TORUS, kind="periodic")

    @property
    def n_points(self) -> int:
        """The least even number from 3 m - 2 on that has no factor but 2, 3 and 5, where transforms are fast."""
        n = 3 * self.n_modes - 2 + self.n_modes % 2
        while 30**32 % n:  # a high power of 30 is divisible by every n < 2^32 without other factors
            n += 2
        return n

    def spectrum(self, omega: Tensor) -> Tensor:
        """The state of values on `grid`, its mean removed: (batch, n_points, n_points) -> (batch, n_points, m)."""
        table = _Table(self, omega.device)
        return table.spectrum(omega) * (table.scale * table.is_kept * (table.squares > 0))

    def read(self, spectrum: Tensor, grid: Grid) -> Tensor:
        """omega on any grid, exactly: (batch, n_points, m) -> (batch, *shape)."""
        m = self.n_modes
        kept = torch.cat([spectrum[:, :m], spectrum[:, -(m - 1) :]], dim=1)
        k_x = torch.cat([torch.arange(m), torch.arange(-(m - 1), 0)]).to(spectrum.device)
        k_y = torch.arange(m, device=spectrum.device)
        x, y = axis_points(grid.to(spectrum.device))
        kept = kept * torch.where(k_y > 0, 2.0, 1.0)  # the wave numbers with k_y < 0 are conjugate
        return expand(kept, [torch.exp(1j * x[:, None] * k_x), torch.exp(1j * y[:, None] * k_y)], grid).real

    def advance(self, spectrum: Tensor, duration: float, steps: int) -> Tensor:
        """The state ``duration`` later, in ``steps`` steps of fourth order.

        The viscous term is integrated exactly: the classical Runge-Kutta method is applied to exp(nu k^2 t) c_k.
        """
        # Paper: Crank-Nicolson and Heun's method (Chandler and Kerswell), second order.
        if steps < 1:
            raise UsageError(f"steps must be at least 1: got {steps}")
        table = _Table(self, spectrum.device)
        dt = duration / steps
        half = torch.exp(-0.5 * dt * self.viscosity * table.squares)
        whole = half * half
        half_dt, whole_sixth, half_third = half * dt, whole * (dt / 6), half * (dt / 3)
        c = spectrum
        for _ in range(steps):
            # In place and in the fewest passes: on a GPU a pass over the spectra takes as long as a transform.
            at_half, total = half * c, whole * c
            slope = table.transport_and_force(c)
            total.addcmul_(whole_sixth, slope)
            slope = table.transport_and_force(torch.addcmul(at_half, half_dt, slope, value=0.5))
            total.addcmul_(half_third, slope)
            slope = table.transport_and_force(torch.add(at_half, slope, alpha=0.5 * dt))
            total.addcmul_(half_third, slope)
            slope = table.transport_and_force(at_half.mul_(half).addcmul_(half_dt, slope))
            c = total.add_(slope, alpha=dt / 6)
        if not bool(torch.isfinite(torch.view_as_real(c)).all()):
            raise DivergedError(
                f"the flow is not finite after {steps} steps of {dt:g} with {self.n_modes} modes; take shorter steps"
            )
        return c

    def tail(self, spectrum: Tensor) -> Tensor:
        """The largest |c_k| with |k| >= 7/8 m over the largest of all: (batch,)."""
        size = spectrum.abs()
        outermost = _Table(self, spectrum.device).squares.sqrt() >= 0.875 * self.n_modes
        largest = size.amax((1, 2))
        return (size * outermost).amax((1, 2)) / torch.where(largest > 0, largest, 1.0)  # no flow has no tail


class _Table:
    """The equation's factors for each wave number, on a device."""

    def __init__(self, equation: VorticityEquation, device: torch.device) -> None:
        m = equation.n_modes
        self.n, self.m = equation.n_points, m
        k_x = torch.fft.fftfreq(self.n, 1 / self.n, dtype=torch.float64, device=device)[:, None]
        k_y = torch.arange(m, dtype=torch.float64, device=device)
        self.squares = k_x.square() + k_y.square()
        self.is_kept = (k_x.abs() < m).to(torch.float64)
        inverse = torch.where(self.squares > 0, 1 / self.squares.clamp(min=1), 0.0)
        # The spectra of velocities are i k_y psi and -i k_x psi.
        self.to_u, self.to_v = 1j * k_y * inverse, -1j * k_x * inverse
        # Transforms carry no factor of their own, so their 1 / n^2 stands here.
        self.scale = 1 / self.n**2
        self.of_uv = (k_x.square() - k_y.square()) * self.is_kept * self.scale
        self.of_difference = -(k_x * k_y) * self.is_kept * self.scale
        self.force = torch.zeros_like(self.to_u)
        if equation.forcing:
            self.force[0, equation.forcing] = -0.5 * equation.forcing

    def values(self, spectrum: Tensor) -> Tensor:
        along_x = torch.fft.ifft(spectrum, dim=-2, norm="forward")
        return torch.fft.irfft(along_x, n=self.n, dim=-1, norm="forward")

    def spectrum(self, values: Tensor) -> Tensor:
        """The coefficients times n^2."""
        return torch.fft.fft(torch.fft.rfft(values, dim=-1)[..., : self.m], dim=-2)

    def transport_and_force(self, c: Tensor) -> Tensor:
        u, v = self.values(c * self.to_u), self.values(c * self.to_v)
        products = torch.addcmul(self.force, self.spectrum(u * v), self.of_uv)
        return products.addcmul_(self.spectrum(u.square_().addcmul_(v, v, value=-1.0)), self.of_difference)
