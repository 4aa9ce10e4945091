"""The default for one's own data beside an FNO, kernel ridge and POD: eleven problems that are not in the catalogue.

    python benchmarks/own_data.py [elliptic burgers ...] [--minutes 1.0] [--folder data/own] [--out rows.json]

Each problem (`own_problems.py`) is written to a file and imported. Two trainings get the same processor minutes on one
thread: what `operformer.recommend` chooses, and neuraloperator's FNO with the settings of its Darcy script. Kernel
ridge and POD with ridge choose their constants by the validation samples. Errors are means over 50 test samples. On the
L-shape the FNO works on a square that holds it; gradients are those of the triangles. What has a row in the file of
--out is not run again.
"""

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from math import pi
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from own_problems import PROBLEMS, areas, l_mesh
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator, RegularGridInterpolator

import operformer
from operformer.data.importing import import_pairs
from operformer.domain import h1_norm, l2_norm
from operformer.training.candidates import RECIPES

VALIDATION, TEST = 20, 50


def parts_of(problem, folder):
    """Training, validation and test samples, generated and imported unless they are there."""
    count = problem.train + VALIDATION + TEST
    home = folder / f"{problem.name}-{count}"
    if not (home / "manifest.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / f"{problem.name}.npz", **problem.samples(count))
        where = {} if problem.kind == "points" else {"grid": problem.kind}
        import_pairs(folder / f"{problem.name}.npz", home, bounds=[(0, problem.length)] * problem.dim, **where)
    samples = operformer.open_pairs(home).read()
    return samples[: problem.train], samples[problem.train : -TEST], samples[-TEST:]


def errors(problem, prediction, samples):
    """Mean relative errors in L2 and H1, in percent."""
    difference, z = prediction - samples.z, samples.z
    l2 = (l2_norm(difference, samples.grid) / l2_norm(z, samples.grid)).mean()
    if problem.kind == "points":
        h1 = (triangle_h1(problem, difference) / triangle_h1(problem, z)).mean()
    else:
        h1 = (h1_norm(difference, samples.grid) / h1_norm(z, samples.grid)).mean()
    return 100 * float(l2), 100 * float(h1)


def triangle_h1(problem, values):
    """The norm in H1 of functions that are linear on each triangle of the L-shape."""
    mesh = l_mesh(problem.n)
    corners, area = mesh.points[mesh.triangles], areas(mesh.points, mesh.triangles)
    inverse = np.linalg.inv(corners[:, 1:] - corners[:, :1])
    on_corners = values[..., mesh.triangles].double().numpy()
    slope = np.einsum("tij,...tj->...ti", inverse, on_corners[..., 1:] - on_corners[..., :1])
    squares = (slope**2).sum(-1) @ area + (values.double().numpy() ** 2) @ mesh.weights
    return torch.from_numpy(np.sqrt(squares.sum(1)))


def by_recommendation(parts, minutes, recipe, seed):
    """What a user gets; the choice in words goes along."""
    train, validation, test = parts
    chosen = operformer.recommend(train, minutes, training={"seed": seed}, recipe=recipe, clock=time.process_time)
    with TemporaryDirectory() as folder:
        operator = operformer.train(chosen.make_operator(), train, validation, chosen.training, folder)
    return operformer.predict(operator, test.u, test.grid).z, chosen


def by_fno(problem, parts, minutes, seed):
    """neuraloperator's FNO as its Darcy script has it: 16 modes, width 32, H1 loss, AdamW, 5e-3, batches of 16.

    The rate falls along a cosine, as in its example, which ends with the time. Inputs and outputs are normalised.
    """
    from neuralop import H1Loss
    from neuralop.models import FNO
    from neuralop.training import AdamW

    started, dim = time.process_time(), problem.dim
    (u, z), (u_test, _) = (on_square(problem, part) for part in (parts[0], parts[2]))
    u_mean, u_std, z_mean, z_std = u.mean(0), u.std(0) + 1e-6, z.mean(0), z.std(0) + 1e-6
    torch.manual_seed(seed)
    modes = tuple(min(16, n) for n in u.shape[2:])
    model = FNO(n_modes=modes, in_channels=u.shape[1], out_channels=z.shape[1], hidden_channels=32)
    optimizer, loss_of = AdamW(model.parameters(), lr=5e-3, weight_decay=1e-4), H1Loss(d=dim)
    share, epochs = 0.0, 0
    while share < 1:
        for chosen in torch.randperm(len(u)).split(16):
            for group in optimizer.param_groups:
                group["lr"] = 5e-3 * (1 + np.cos(pi * min(1.0, share))) / 2
            prediction = model((u[chosen] - u_mean) / u_std) * z_std + z_mean
            optimizer.zero_grad()
            loss_of(prediction, z[chosen]).backward()
            optimizer.step()
            share = (time.process_time() - started) / (60 * minutes)
        epochs += 1
    with torch.no_grad():
        found = model((u_test - u_mean) / u_std) * z_std + z_mean
    return from_square(problem, found, parts[2]), epochs


def on_square(problem, samples):
    """Values on a uniform grid: themselves, or on a square that holds the L-shape, linear and nearest outside."""
    if problem.kind != "points":
        return samples.u, samples.z
    x = np.linspace(0, 1, problem.n + 1)
    there, points = np.stack(np.meshgrid(x, x, indexing="ij"), -1), samples.grid.points.numpy()

    def spread(values):
        flat = values.flatten(0, 1).numpy().T
        linear = LinearNDInterpolator(points, flat)(there)
        nearest = NearestNDInterpolator(points, flat)(there)
        found = np.where(np.isnan(linear), nearest, linear)
        return torch.from_numpy(np.moveaxis(found, -1, 0)).float().unflatten(0, values.shape[:2])

    return spread(samples.u), spread(samples.z)


def from_square(problem, values, samples):
    """Back to the points of the L-shape."""
    if problem.kind != "points":
        return values
    x = np.linspace(0, 1, problem.n + 1)
    flat = values.flatten(0, 1).permute(1, 2, 0).numpy()
    found = RegularGridInterpolator((x, x), flat)(samples.grid.points.numpy().clip(0, 1))
    return torch.from_numpy(found.T).float().unflatten(0, values.shape[:2])


def by_kernel(parts, is_kernel):
    """Ridge regression from u to z, by a Gaussian kernel, or from the leading components of u (POD)."""
    (u, z), (u_val, z_val), (u_test, _) = ((p.u.flatten(1).double(), p.z.flatten(1).double()) for p in parts)
    channel = parts[0].u.double().transpose(0, 1).flatten(1)
    scale = channel.std(1).repeat_interleave(u.shape[1] // len(channel))
    mean, z_mean = u.mean(0), z.mean(0)
    u, u_val, u_test = ((v - mean) / scale for v in (u, u_val, u_test))
    best = None
    distance = torch.cdist(u, u)
    widths = torch.median(distance) * 2.0 ** torch.arange(-2, 4) if is_kernel else [None]
    sizes = [None] if is_kernel else [n for n in (8, 16, 32, 64, 128, 256) if n < len(u)]
    right = torch.linalg.svd(u, full_matrices=False).Vh
    for choice in widths if is_kernel else sizes:
        if is_kernel:

            def features(v, choice=choice):
                return torch.exp(-torch.cdist(v, u).square() / (2 * choice**2))
        else:

            def features(v, choice=choice):
                return torch.cat([v @ right[:choice].T, torch.ones(len(v), 1).double()], 1)

        table = features(u)
        gram = table if is_kernel else table.T @ table
        target = z - z_mean if is_kernel else table.T @ (z - z_mean)
        for ridge in 10.0 ** torch.arange(-10, 1):
            penalty = ridge * gram.diagonal().mean() * torch.eye(len(gram)).double()
            solved = torch.linalg.solve(gram + penalty, target)
            error = ((features(u_val) @ solved + z_mean - z_val).norm(dim=1) / z_val.norm(dim=1)).mean()
            if best is None or error < best[0]:
                best = error, features(u_test) @ solved + z_mean
    return best[1].reshape(parts[2].z.shape).float()


def measure(problem, arguments, known):
    """A row for each method that is not among the known ones."""
    parts, minutes, seed = parts_of(problem, arguments.folder), arguments.minutes, arguments.seed
    methods = {
        **{name: partial(by_recommendation, parts, minutes, name, seed) for name in arguments.recipes},
        "FNO": lambda: by_fno(problem, parts, minutes, seed),
        "kernel ridge": lambda: (by_kernel(parts, True),),
        "POD, ridge": lambda: (by_kernel(parts, False),),
    }
    wanted = methods if "auto" in arguments.recipes else arguments.recipes
    for method, compute in methods.items():
        if method in wanted and method not in known:
            started = time.process_time()
            prediction, *said = compute()
            seconds = time.process_time() - started
            l2, h1 = errors(problem, prediction, parts[2])
            row = {"problem": problem.name, "method": method, "l2": l2, "h1": h1, "seconds": seconds}
            yield row | {"said": [str(each) for each in said]}


def table(rows):
    """One line for each problem: what was chosen, errors in L2 and H1, ratios to the FNO, seconds of both trainings."""
    lines = [
        "| problem | chosen | auto: L2, H1 | FNO: L2, H1 | ratios | kernel ridge: L2, H1 | POD, ridge: L2, H1 | s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["problem"] for row in rows):
        of = {row["method"]: row for row in rows if row["problem"] == name}
        cells = {method: f"{row['l2']:.2f}, {row['h1']:.2f} %" for method, row in of.items()}
        auto, fno = of["auto"], of["FNO"]
        ratios = f"{auto['l2'] / fno['l2']:.2f}, {auto['h1'] / fno['h1']:.2f}"
        columns = [
            name,
            operator_in(auto),
            cells["auto"],
            cells["FNO"],
            ratios,
            cells["kernel ridge"],
            cells["POD, ridge"],
        ]
        lines.append(f"| {' | '.join(columns)} | {auto['seconds']:.0f}, {fno['seconds']:.0f} |")
    return "\n".join(lines)


def operator_in(row):
    """The operator of a row in a few words."""
    chosen = row["said"][0].split("chosen: ")[1].splitlines()[0]
    extras = [word for word in ("dirichlet", "Increment") if word in chosen]
    return ", ".join([chosen.partition(" (")[0].removeprefix("SpectralOperator "), *extras])


def choices(rows):
    """What was found and chosen, problem by problem."""
    made = (row for row in rows if row["method"] in RECIPES)
    return "\n".join(f"{row['problem']}, {row['method']}:\n{row['said'][0]}" for row in made)


def by_name(rows):
    """Errors in L2 and H1 of every recipe that ran, problem by problem."""
    return "\n".join(f"| {r['problem']} | {r['method']} | {r['l2']:.2f}, {r['h1']:.2f} % |" for r in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--recipes", nargs="+", default=["auto"], help="others than auto have lines of their own")
    parser.add_argument("--seed", type=int, default=0, help="of both trainings")
    parser.add_argument("--samples", type=int, help="training samples, where not 200 or 300")
    parser.add_argument("--folder", type=Path, default=Path("data/own"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = json.loads(arguments.out.read_text())["rows"] if arguments.out and arguments.out.is_file() else []
    for name in arguments.problems:
        problem = PROBLEMS[name]
        problem = replace(problem, train=arguments.samples or problem.train)
        known = [row["method"] for row in rows if row["problem"] == name]
        for row in measure(problem, arguments, known):
            rows.append(row)
            if arguments.out:
                arguments.out.write_text(json.dumps({"minutes": arguments.minutes, "rows": rows}, indent=2) + "\n")
    rows = [row for row in rows if row["problem"] in arguments.problems]
    print(f"{choices(rows)}\n\n{table(rows) if 'auto' in arguments.recipes else by_name(rows)}")


if __name__ == "__main__":
    main()
