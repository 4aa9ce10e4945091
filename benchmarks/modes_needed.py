"""How many waves an operator has to act on: what of the pairs of Kolmogorov flow lies beyond a wave number.

    python benchmarks/modes_needed.py [--resolution 104] [--pairs 4] [--waves 8 12 16 20 26 32 40]

For each K two medians over the pairs, as a part of the norm of the output: the output's waves with a larger wave number
along either axis, and those of the difference of output and input. p patches of modes below m along an axis reach K of
about p m, with a periodic extension half of that. What acts at each point makes shorter waves as well, so this is no
bound for a network.
"""

import argparse

import torch

from operformer.domain.quadrature import l2_norm
from operformer.evaluation.spectra import coefficients
from operformer.problems import Kolmogorov


def beyond(functions, grid, wave):
    """The norms of what periodic functions (n, 1, points, points) have at larger wave numbers."""
    points = grid.shape[0]
    numbers = torch.fft.fftfreq(points, 1 / points).abs()
    is_beyond = torch.maximum(numbers[:, None], numbers[None, :]) > wave
    return (coefficients(functions, grid, "fourier") * is_beyond).flatten(1).norm(dim=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resolution", type=int, default=104)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--waves", type=int, nargs="+", default=[8, 12, 16, 20, 26, 32, 40])
    arguments = parser.parse_args()
    samples = Kolmogorov().sample(arguments.pairs, arguments.resolution, seed=1)
    grid, z, moved = samples.grid, samples.z, samples.z - samples.u
    whole = l2_norm(z, grid)
    print(f"output and input differ by {(l2_norm(moved, grid) / whole).median():.1%}")
    for wave in arguments.waves:
        output, change = ((beyond(f, grid, wave) / whole).median() for f in (z, moved))
        print(f"beyond {wave:3d}: output {output:8.3%}  change {change:8.3%}")


if __name__ == "__main__":
    main()
