"""One training on one grid, then grids that it never saw: recover y(t) of Lorenz 63 from x(t).

About a minute on one core; --small takes ten seconds and errs by ten times as much.
"""

import argparse

import torch
from matplotlib.figure import Figure

from operformer import TNO, Grid, Training, predict, train
from operformer.domain import l2_norm
from operformer.problems import Lorenz63

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--small", action="store_true", help="fewer trajectories and times, a smaller operator")
small = parser.parse_args().small
count, epochs, steps, rate = (400, 20, 40, 1e-2) if small else (1500, 16, 80, 6e-3)
size = {"hidden_channels": 32, "n_layers": 2} if small else {"hidden_channels": 48, "n_layers": 3}
folder = "runs/zero-shot-small" if small else "runs/zero-shot"

# 1. Trajectories on [0, 2], read at equispaced times, and a transformer neural operator that is trained on them.
problem = Lorenz63()
pairs = problem.sample(count + 50, resolution=steps).to(dtype=torch.float32)
torch.manual_seed(0)
operator = TNO(dim=1, in_channels=1, out_channels=1, n_heads=4, **size)
settings = Training(epochs=epochs, batch_size=8, learning_rate=rate, schedule="one-cycle")
operator = train(operator, pairs[:count], pairs[count:], settings, folder)

# 2. A hundred other trajectories, the same ones on every grid. Nothing is trained from here on.
grids = {
    "half the resolution": problem.grid(steps // 2),
    "training grid": problem.grid(steps),
    "twice the resolution": problem.grid(2 * steps),
    "irregular, second half coarser": problem.irregular_grid(steps),
    "graded, points crowd at the start": problem.graded_grid(steps),
}
tests = {name: problem.sample(100, grid, first=len(pairs)).to(dtype=torch.float32) for name, grid in grids.items()}


def error(found, name):
    """The median over the trajectories of the relative L2 error on the grid of that name."""
    test = tests[name]
    return float((l2_norm(found.z - test.z, test.grid) / l2_norm(test.z, test.grid)).median())


# A transformer is not told how points lie: to it every one counts as much. So is the operator in the last column.
print(f"{'median error of y(t)':<36}points     TNO   its weights left out")
for name, grid in grids.items():
    u = tests[name].u
    without = error(predict(operator, u, Grid.scattered(grid.points, bounds=grid.bounds)), name)
    print(f"{name:<36}{u.shape[-1]:>6}{error(predict(operator, u, grid), name):>8.1%}{without:>23.1%}")

# 3. x(t) is known on the training grid, and y(t) is asked for at other times.
print("x on the training grid, y on")
known = tests["training grid"]
for name in ("half the resolution", "twice the resolution", "graded, points crowd at the start"):
    found = predict(operator, known.u, known.grid, query=grids[name])
    print(f"  {name:<34}{grids[name].shape[0]:>6}{error(found, name):>8.1%}")

# 4. The first of them: what was known, and what was found on the graded grid.
figure = Figure(figsize=(7, 3), layout="constrained")
axes = figure.subplots()
fine = tests["twice the resolution"]
axes.plot(known.grid.points, known.u[0, 0], ".", color="0.6", label="x, known on the training grid")
axes.plot(fine.grid.points, fine.z[0, 0], label="y")
axes.plot(found.grid.points, found.z[0, 0], "o", markersize=3, label="y, found on the graded grid")
axes.set(xlabel="t")
axes.legend()
figure.savefig("runs/zero_shot_lorenz.png", dpi=150)
print("figure: runs/zero_shot_lorenz.png")
