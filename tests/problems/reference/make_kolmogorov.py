"""Make kolmogorov_exponax.npz: one Kolmogorov flow, solved by a library that shares no code with this one.

    ∂ω/∂t + u·∇ω = ν Δω − n cos(n y),   u = (∂ψ/∂y, −∂ψ/∂x),   −Δψ = ω,   n = 4,   ν = 1/40,

on the torus [0, 2π]², from

    ω(0, x, y) = cos(x) + 2 sin(2y) cos(x − 1) + ½ sin(3x + y) + cos(2x − 3y + 0.4).

Here ω = ∂v/∂x − ∂u/∂y, and the force on the momentum is sin(n y) in the direction of x. Arrays are indexed [ix, iy],
with x_i = 2π i / N.

The file holds `times` (4,), `omega` (4, 32, 32), read from the fine grid at every (N/32)-th point without any
filter, and `viscosity` (). The solution has more modes than the 32 x 32 grid can tell apart: compare values at these
points, not Fourier coefficients.

The tests read the file and never run this script. It needs a place of its own:

    python -m venv /tmp/exponax && /tmp/exponax/bin/pip install exponax==0.2.0 jax==0.10.2 scipy==1.17.1
    /tmp/exponax/bin/python tests/problems/reference/make_kolmogorov.py

Made with exponax 0.2.0, jax 0.10.2, numpy 2.4.6, scipy 1.17.1 on Python 3.11, in float64.

What exponax 0.2.0 solves, read in its source (`VorticityConvection2d`, `KolmogorovFlowVorticity`): with φ = Δ⁻¹W,

    ∂W/∂t + ∂φ/∂y ∂W/∂x − ∂φ/∂x ∂W/∂y = ν ΔW + λW − kγ cos(k y).

Its φ is −ψ, so that its W turns the other way round: the velocity (∂φ/∂y, −∂φ/∂x) has the curl −W. The reflection
W(t, x, y) = ω(t, −x, y) changes the sign of the advection and of nothing else, and so takes our equation to this
one, with k = n, γ = 1 and λ = 0 (the default of λ, −0.1, is a drag). Products are dealiased by the 2/3 rule, before
and after: wavenumbers up to N/3 − 1 in each direction take part in them.

The second half is another opinion, in numpy and scipy alone: the residual of the equation along the trajectory,
and a second solution by another method. `main` prints the findings and refuses to write a file that does not agree.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import exponax
import jax
import numpy as np
from scipy.integrate import solve_ivp

MODE = 4
VISCOSITY = 1 / 40
TIMES = (0.0, 0.5, 1.0, 2.0)
POINTS = 32  # in each direction, in the file
FINE = 192  # in each direction, in the solver
STEPS = 1024  # for each unit of time; the file is made with twice as many
TICK = 2**-7  # times are multiples of it


def main() -> None:
    """Solve, question the solution, and write the file."""
    jax.config.update("jax_enable_x64", True)
    print({name: version(name) for name in ("exponax", "jax", "jaxlib", "numpy", "scipy")})

    rough, omega = (flow(TIMES, steps, FINE) for steps in (STEPS, 2 * STEPS))
    halving = np.abs(rough - omega).max()
    print(f"{2 * STEPS} instead of {STEPS} steps for each unit of time change it by {halving:.1e}")

    tail = max(tail_of_spectrum(snapshot) for snapshot in omega)
    print(f"spectrum at the dealiasing cutoff {FINE // 3 - 1}: {tail:.1e} of its maximum")

    refining = np.abs(rough - flow(TIMES, STEPS, 2 * FINE)[:, ::2, ::2]).max()
    print(f"{2 * FINE}² instead of {FINE}² points change it by {refining:.1e}")

    left_over = max(residual_of_equation(t) for t in TIMES[1:])
    print(f"residual of the equation: {left_over:.1e} of the largest |∂ω/∂t|")

    apart = np.abs(omega - solve_again(FINE)).max()
    print(f"distance from a second solution, by DOP853: {apart:.1e}, where |ω| reaches {np.abs(omega).max():.2f}")

    agreed = {"halving": halving < 1e-9, "tail": tail < 1e-12, "refining": refining < 1e-9}
    agreed |= {"residual": left_over < 1e-8, "second solution": apart < 1e-8}
    if not all(agreed.values()):
        raise SystemExit(f"not written; what failed: {[name for name, held in agreed.items() if not held]}")

    stride = FINE // POINTS
    file = Path(__file__).with_name("kolmogorov_exponax.npz")
    np.savez_compressed(file, times=np.array(TIMES), omega=omega[:, ::stride, ::stride], viscosity=VISCOSITY)


def flow(times: Sequence[float], steps: int, n: int) -> np.ndarray:
    """ω at these times, rising multiples of TICK, on n x n points by exponax, with so many steps for a unit of time."""
    stepper = exponax.stepper.KolmogorovFlowVorticity(
        num_spatial_dims=2,
        domain_extent=2 * np.pi,
        num_points=n,
        dt=1 / steps,
        diffusivity=VISCOSITY,
        drag=0.0,
        injection_mode=MODE,
        injection_scale=1.0,
        order=4,
    )
    tick = jax.jit(exponax.repeat(stepper, round(steps * TICK)))
    w, elapsed, omega = reflect(initial(n))[None], 0, []
    for t in times:
        while elapsed < round(t / TICK):
            w, elapsed = tick(w), elapsed + 1
        omega.append(reflect(np.asarray(w[0])))
    return np.stack(omega)


def initial(n: int) -> np.ndarray:
    """ω(0, x, y) on n x n points."""
    x, y = np.meshgrid(*[2 * np.pi * np.arange(n) / n] * 2, indexing="ij")
    return np.cos(x) + 2 * np.sin(2 * y) * np.cos(x - 1) + 0.5 * np.sin(3 * x + y) + np.cos(2 * x - 3 * y + 0.4)


def reflect(omega: np.ndarray) -> np.ndarray:
    """ω(x, y) ↦ ω(−x, y)."""
    return np.roll(omega[::-1], 1, axis=0)


# The second opinion. Nothing below calls exponax, but for the trajectory that is being questioned.


def right_hand_side(n: int) -> Callable[[np.ndarray], np.ndarray]:
    """ω̂ ↦ −F[u·∇ω] + ν Δω − n cos(n y), with products on (3n/2)² points: no aliasing reaches a mode that is kept.

    Modes are those of `rfft2` on n x n points, scaled to be coefficients of exp(i k·x). Those at n/2 are dropped.
    """
    kx = np.fft.fftfreq(n, 1 / n)[:, None]
    ky = np.arange(n // 2 + 1.0)[None, :]
    squared = kx**2 + ky**2
    inverse = 1 / np.where(squared == 0, 1, squared)
    kept = (np.abs(kx) < n // 2) & (ky < n // 2)
    fine, half = 3 * n // 2, n // 2
    force = np.zeros_like(squared)
    force[0, MODE] = -MODE / 2

    def values(modes: np.ndarray) -> np.ndarray:
        padded = np.zeros((fine, fine // 2 + 1), complex)
        padded[:half, : half + 1] = modes[:half]
        padded[-half:, : half + 1] = modes[half:]
        return np.fft.irfft2(padded * fine**2, s=(fine, fine))

    def modes_of(field: np.ndarray) -> np.ndarray:
        padded = np.fft.rfft2(field) / fine**2
        return np.concatenate([padded[:half], padded[-half:]])[:, : half + 1]

    def rhs(modes: np.ndarray) -> np.ndarray:
        psi = inverse * modes
        u, v = values(1j * ky * psi), values(-1j * kx * psi)
        advection = u * values(1j * kx * modes) + v * values(1j * ky * modes)
        return kept * (-modes_of(advection) - VISCOSITY * squared * modes + force)

    return rhs


def residual_of_equation(t: float) -> float:
    """max |∂ω/∂t − right-hand side| / max |∂ω/∂t|, with ∂ω/∂t by an eighth-order difference of the trajectory."""
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    around = flow([t + j * TICK for j in range(-4, 5)], 2 * STEPS, FINE)
    change = sum(w * (around[4 + j] - around[4 - j]) for j, w in weights.items()) / TICK
    law = np.fft.irfft2(right_hand_side(FINE)(np.fft.rfft2(around[4]) / FINE**2) * FINE**2, s=(FINE, FINE))
    return np.abs(change - law).max() / np.abs(change).max()


def solve_again(n: int) -> np.ndarray:
    """ω at all times on n x n points by the explicit method of order eight, each time the end of a leg of its own."""
    rhs = right_hand_side(n)
    shape = (n, n // 2 + 1)
    modes = [np.fft.rfft2(initial(n)) / n**2]
    for leg in pairwise(TIMES):
        solution = solve_ivp(
            lambda t, y: rhs(y.view(complex).reshape(shape)).ravel().view(float),
            leg,
            modes[-1].ravel().view(float),
            method="DOP853",
            rtol=1e-11,
            atol=1e-14,
            max_step=TICK,  # where diffusion is stable; the estimate of the error alone notices late
        )
        modes.append(solution.y[:, -1].copy().view(complex).reshape(shape))
    return np.fft.irfft2(np.stack(modes) * n**2, s=(n, n))


def tail_of_spectrum(omega: np.ndarray) -> float:
    """The largest mode on the border of the square of modes that take part in products, over the largest of all."""
    n = omega.shape[0]
    cutoff = n // 3 - 1
    modes = np.abs(np.fft.rfft2(omega))
    kx = np.abs(np.fft.fftfreq(n, 1 / n))[:, None]
    ky = np.arange(n // 2 + 1)[None, :]
    return modes[np.maximum(kx, ky) == cutoff].max() / modes.max()


if __name__ == "__main__":
    main()
