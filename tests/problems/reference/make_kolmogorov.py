"""Make kolmogorov_exponax.npz: one Kolmogorov flow, solved by a library that shares no code with this one.

    ∂ω/∂t + u·∇ω = ν Δω − n cos(n y),   u = (∂ψ/∂y, −∂ψ/∂x),   −Δψ = ω,   n = 4,   ν = 1/40,

on the torus [0, 2π]², from ω(0, x, y) = cos(x) + 2 sin(2y) cos(x − 1) + ½ sin(3x + y) + cos(2x − 3y + 0.4).

The file holds `times` (4,), `omega` (4, 32, 32), indexed [ix, iy] and read from the fine grid at every sixth point
without any filter, and `viscosity` (). The solution has more modes than the 32 x 32 grid can tell apart: compare
values at these points, not Fourier coefficients. The tests read the file and never run this script:

    python -m venv /tmp/exponax && /tmp/exponax/bin/pip install exponax==0.2.0 jax==0.10.2
    /tmp/exponax/bin/python tests/problems/reference/make_kolmogorov.py

Made with exponax 0.2.0, jax 0.10.2, numpy 2.4.6 on Python 3.11, in float64. The file agreed to 1e-8 with a second
solution (DOP853 on another discretisation), and the equation's residual along it was below 1e-8.

What exponax 0.2.0 solves, read in its source (`VorticityConvection2d`, `KolmogorovFlowVorticity`): with φ = Δ⁻¹W,

    ∂W/∂t + ∂φ/∂y ∂W/∂x − ∂φ/∂x ∂W/∂y = ν ΔW + λW − kγ cos(k y).

Its φ is −ψ, so its W turns the other way round. The reflection W(t, x, y) = ω(t, −x, y) changes the sign of the
advection and of nothing else, and so takes our equation to this one, with k = n, γ = 1 and λ = 0 (the default of λ,
−0.1, is a drag). Products are dealiased by the 2/3 rule.
"""

from pathlib import Path

import exponax
import jax
import numpy as np

VISCOSITY = 1 / 40
TIMES = (0.0, 0.5, 1.0, 2.0)
POINTS = 32  # in each direction, in the file
FINE = 192  # in each direction, in the solver
STEPS = 2048  # for each unit of time
TICK = 2**-7  # times are multiples of it


def main() -> None:
    """Solve, compare with half the steps and with twice the points, and write the file."""
    jax.config.update("jax_enable_x64", True)
    omega, rough = flow(STEPS, FINE), flow(STEPS // 2, FINE)
    halving, refining = np.abs(rough - omega).max(), np.abs(rough - flow(STEPS // 2, 2 * FINE)[:, ::2, ::2]).max()
    print(f"half the steps change it by {halving:.1e}, twice the points by {refining:.1e}")
    if max(halving, refining) > 1e-9:
        raise SystemExit("not written")
    file, stride = Path(__file__).with_name("kolmogorov_exponax.npz"), FINE // POINTS
    np.savez_compressed(file, times=np.array(TIMES), omega=omega[:, ::stride, ::stride], viscosity=VISCOSITY)


def flow(steps: int, n: int) -> np.ndarray:
    """ω at TIMES on n x n points, with ``steps`` steps for a unit of time."""
    stepper = exponax.stepper.KolmogorovFlowVorticity(
        num_spatial_dims=2,
        domain_extent=2 * np.pi,
        num_points=n,
        dt=1 / steps,
        diffusivity=VISCOSITY,
        drag=0.0,
        injection_mode=4,
        injection_scale=1.0,
        order=4,
    )
    tick = jax.jit(exponax.repeat(stepper, round(steps * TICK)))
    x, y = np.meshgrid(*[2 * np.pi * np.arange(n) / n] * 2, indexing="ij")
    start = np.cos(x) + 2 * np.sin(2 * y) * np.cos(x - 1) + 0.5 * np.sin(3 * x + y) + np.cos(2 * x - 3 * y + 0.4)
    w, elapsed, omega = reflect(start)[None], 0, []
    for t in TIMES:
        while elapsed < round(t / TICK):
            w, elapsed = tick(w), elapsed + 1
        omega.append(reflect(np.asarray(w[0])))
    return np.stack(omega)


def reflect(omega: np.ndarray) -> np.ndarray:
    """ω(x, y) ↦ ω(−x, y)."""
    return np.roll(omega[::-1], 1, axis=0)


if __name__ == "__main__":
    main()
