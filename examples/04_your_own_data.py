"""Arrays in a file, an operator trained on them, predictions for new inputs at a resolution it has not seen."""

import numpy as np

import operformer
from operformer import Training, train
from operformer.evaluation.errors import relative_errors


def solve(count, n, seed):
    """Stands for your data: random u and the z with z - 0.1 z'' = u, periodic on a square of n x n points, by FFT."""
    k = np.fft.fftfreq(n, 1 / n)
    square = k[:, None] ** 2 + k**2
    low = np.abs(k) < 4
    spectrum = np.zeros((count, n, n), complex)
    spectrum[:, np.outer(low, low)] = np.random.default_rng(seed).normal(size=(count, 49, 2)) @ [1, 1j]
    spectrum /= 1 + square
    return [np.fft.ifft2(s, norm="forward").real for s in (spectrum, spectrum / (1 + 0.4 * np.pi**2 * square))]


u, z = solve(240, 16, seed=0)
np.savez("mine.npz", u=u.astype("float32"), z=z.astype("float32"))

samples = operformer.read("mine.npz", layout="b x y", grid="periodic")
sizes = {"in_channels": 1, "out_channels": 1, "hidden_channels": 16, "n_layers": 2, "n_heads": 2}
operator = operformer.FANO(n_patches=(2, 2), n_modes=4, **sizes)
settings = Training(epochs=9, batch_size=8, learning_rate=1e-2, schedule="one-cycle")
operator = train(operator, samples[:200], samples[200:220], settings, "runs/mine")
print(f"error on 20 test pairs: {relative_errors(operator, samples[220:]).mean():.1%}")

new, truth = solve(10, 32, seed=1)  # twice the resolution
found = operformer.predict(operator, new[:, None], operformer.Grid.uniform((32, 32), kind="periodic"))
error = np.linalg.norm(found.z[:, 0].numpy() - truth, axis=(1, 2)) / np.linalg.norm(truth, axis=(1, 2))
print(f"error on 10 new functions at twice the resolution: {error.mean():.1%}")
operformer.write(found, "predicted.npz")  # u, z and the grid
