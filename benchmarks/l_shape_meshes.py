"""Poisson's equation on an L-shape, another finite element mesh in each sample: errors there and on finer meshes.

    python benchmarks/l_shape_meshes.py [--minutes 3] [--seed 0] [--folder data/l-shape]

-Laplace z = f, z = 0 on the boundary, f a random smooth function. Meshes are scikit-fem's L, refined at random places,
their inner points moved at random. The truth is of quadratic elements. Every sample is one .vtu file, which meshio
writes and `operformer.read` reads. What is trained is what `operformer.recommend` chooses. The finer meshes are other
ones, of half the width. Errors are relative, in L2 and H1 of the functions that are linear on each triangle.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import meshio
import numpy as np
import skfem
import torch
from skfem.helpers import dot, grad

import operformer
from operformer.evaluation.errors import assess

TRAIN, VALIDATION, TEST = 400, 40, 50
WAVES = 4  # of f along an axis


def mesh(rng, levels):
    """The L with a tenth of the triangles of a coarser mesh divided at random, and inner points moved by chance."""
    found = skfem.MeshTri.init_lshaped().refined(levels - 1)
    chosen = rng.choice(found.nelements, found.nelements // 10, replace=False)
    found = found.refined(chosen).refined()
    shortest = np.full(found.nvertices, np.inf)
    first, last = found.facets
    lengths = np.linalg.norm(found.p[:, first] - found.p[:, last], axis=0)
    for end in (first, last):
        np.minimum.at(shortest, end, lengths)
    moved = found.p.copy()
    inner = found.interior_nodes()
    moved[:, inner] += 0.2 * shortest[inner] * rng.uniform(-1, 1, (2, len(inner)))
    return skfem.MeshTri(moved, found.t)


def source(rng):
    """A random smooth f: cosines of at most so many half waves along each axis of the square that holds the L."""
    k = np.arange(WAVES + 1)
    size = (1 + (k[:, None] ** 2 + k**2) / 4) ** -1.0
    c = rng.normal(size=size.shape) * size / np.sqrt((size**2).sum())
    return lambda x, y: np.einsum(
        "kl,k...,l...->...", c, *(np.cos(np.pi / 2 * np.multiply.outer(k, 1 + one)) for one in (x, y))
    )


def solve(mesh, f):
    """The solution by quadratic elements, at the points of the mesh."""
    basis = skfem.Basis(mesh, skfem.ElementTriP2(), intorder=4)
    matrix = skfem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v))).assemble(basis)
    load = skfem.LinearForm(lambda v, w: f(*w.x) * v).assemble(basis)
    solution = skfem.solve(*skfem.condense(matrix, load, D=basis.get_dofs()))
    return solution[basis.nodal_dofs[0]]


def write(folder, count, levels, seed):
    """One .vtu file for each sample, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(count):
        path = folder / f"{k:05d}.vtu"
        if not path.is_file():
            rng = np.random.default_rng([seed, k])
            f, where = source(rng), mesh(rng, levels)
            points = np.column_stack([where.p.T, np.zeros(where.nvertices)])
            values = {"f": f(*where.p), "z": solve(where, f)}
            meshio.Mesh(points, [("triangle", where.t.T)], values).write(path)


def own_error(seed=99):
    """How far the truth itself is off: solutions on the meshes against those on the same meshes, refined twice."""
    found = {}
    for levels in (3, 4):
        rng = np.random.default_rng(seed)
        f, where = source(rng), mesh(rng, levels)
        grid = operformer.Grid.mesh(where.p.T.copy(), where.t.T.copy())
        finer = where.refined(2)
        truth = torch.tensor(solve(finer, f)[: where.nvertices])  # refining keeps the points, first of all
        difference = torch.tensor(solve(where, f)) - truth
        l2 = [operformer.domain.l2_norm(values[None], grid) for values in (difference, truth)]
        found[levels] = float(l2[0] / l2[1])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("data/l-shape"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    box = [(-1, 1), (-1, 1)]
    write(arguments.folder / "train", TRAIN + VALIDATION, 3, seed=0)
    write(arguments.folder / "test", TEST, 3, seed=1)
    write(arguments.folder / "finer", TEST, 4, seed=2)
    train = operformer.read(arguments.folder / "train", "f", "z", bounds=box)
    print(train)
    print("the truth's own error: " + ", ".join(f"{error:.2%}" for error in own_error().values()))
    chosen = operformer.recommend(
        train[:TRAIN], minutes=arguments.minutes, training={"seed": arguments.seed}, clock=time.process_time
    )
    print(chosen)
    started = time.process_time()
    with TemporaryDirectory() as folder:
        operator = operformer.train(chosen.make_operator(), train[:TRAIN], train[TRAIN:], chosen.training, folder)
    print(f"trained for {time.process_time() - started:.0f} s on one core")
    means = []
    for name in ("test", "finer"):
        samples = operformer.read(arguments.folder / name, "f", "z", bounds=box)
        found = assess(operformer.predict(operator, samples.u, samples.grid).z, samples, name)
        means.append(found.mean)
        print(
            f"{name}: L2 mean {found.mean:.2%}, median {found.median:.2%}, worst {found.worst:.2%}; "
            f"H1 mean {found.h1.mean:.2%}; {samples.grid}"
        )
    print(f"finer / test: {means[1] / means[0]:.2f}")


if __name__ == "__main__":
    main()
