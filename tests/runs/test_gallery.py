"""The first test samples on every grid: exact values come back from the file, damage is one line."""

import io
import pickle
import zipfile

import numpy as np
import pytest
import torch

from operformer import Grid
from operformer.domain import Samples
from operformer.errors import DataError
from operformer.runs.gallery import Gallery, read_gallery, show, write_gallery


def plane(grid, count=7):
    """u = j + 2 x + 5 y for the sample j, which interpolation keeps; z = 2 u, prediction 3 u."""
    x = grid.points
    u = 2 * x[..., 0] + (5 * x[..., 1] if grid.dim > 1 else 0) + (7 * x[..., 2] if grid.dim > 2 else 0)
    u = torch.arange(count, dtype=torch.float64).reshape(-1, 1, *[1] * len(grid.shape)) + u
    samples = Samples(torch.cat([u, -u], 1), 2 * u, grid)
    return 3 * u, samples, torch.arange(count) / 8


def written(tmp_path, **grids):
    path = tmp_path / "gallery.npz"
    write_gallery(Gallery({label: show(*plane(grid)) for label, grid in grids.items()}), path)
    return path


def test_curves_and_images_come_back_as_they_were(tmp_path):
    line, square = Grid.rectilinear([0.7, 0.0, 0.1]), Grid.uniform((131, 5), bounds=[(0, 1), (0, 3)], kind="cells")
    gallery = read_gallery(written(tmp_path, line=line, square=square))
    assert list(gallery) == ["line", "square"]
    curves = gallery["line"]
    assert curves.y is None
    assert curves.x.tolist() == np.float32([0.0, 0.1, 0.7]).tolist()
    j = np.arange(6)[:, None, None]
    np.testing.assert_allclose(curves.u[:, :1], j + 2 * curves.x, rtol=1e-6)
    np.testing.assert_allclose(curves.u[:, 1:], -j - 2 * curves.x, rtol=1e-6)
    images = gallery["square"]
    assert images.x.tolist() == pytest.approx(((np.arange(0, 131, 2) + 0.5) / 131).tolist(), rel=1e-6)
    assert images.y.tolist() == pytest.approx([0.3, 0.9, 1.5, 2.1, 2.7], rel=1e-6)
    u = j[..., None] + 2 * images.x[:, None] + 5 * images.y
    for values, factor in ((images.u[:, :1], 1), (images.z, 2), (images.prediction, 3)):
        assert values.dtype == np.float32
        np.testing.assert_allclose(values, factor * u, rtol=1e-6)
    assert images.errors.tolist() == [0.0, 0.125, 0.25, 0.375, 0.5, 0.625]
    assert images.index.tolist() == [0, 1, 2, 3, 4, 5]


def test_the_file_is_plain_numpy_of_the_names_that_pages_read(tmp_path):
    path = written(tmp_path, **{"0.5x": Grid.uniform((3, 5)), "graded": Grid.uniform((4,))})
    with np.load(path, allow_pickle=False) as file:
        names = {"x", "u", "z", "prediction", "errors", "index"}
        assert set(file) == {f"graded/{name}" for name in names} | {f"0.5x/{name}" for name in names | {"y"}}
        assert file["0.5x/u"].shape == (6, 2, 3, 5)
        assert file["0.5x/prediction"].shape == (6, 1, 3, 5)
    again = path.read_bytes()
    assert written(tmp_path, **{"0.5x": Grid.uniform((3, 5)), "graded": Grid.uniform((4,))}).read_bytes() == again


def test_of_a_box_the_middle_is_shown(tmp_path):
    images = show(*plane(Grid.uniform((3, 5, 7))))
    j = np.arange(6)[:, None, None, None]
    expected = j + 2 * images.x[:, None] + 5 * images.y + 3.5
    np.testing.assert_allclose(images.u[:, :1], expected, rtol=1e-6)


@pytest.mark.parametrize("dim", [2, 3])
def test_scattered_points_are_read_on_a_raster_in_the_middle(dim):
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * dim)
    points = torch.rand(60, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    images = show(*plane(Grid.scattered(torch.cat([corners, points]))))
    assert images.u.shape == (6, 2, 128, 128)
    j = np.arange(6)[:, None, None, None]
    expected = j + 2 * images.x[:, None] + 5 * images.y + (3.5 if dim == 3 else 0)
    np.testing.assert_allclose(images.prediction, 3 * expected, rtol=1e-5)


def test_long_curves_keep_every_few_points():
    curves = show(*plane(Grid.uniform((5001,))))
    assert curves.x.tolist() == pytest.approx((np.arange(0, 5001, 3) / 5000).tolist(), abs=1e-7)


# Damage


def archive(**changes):
    """A gallery of one curve, with some of its arrays changed or left out."""
    arrays = {
        "x": np.float32([0, 1]), "u": np.ones((1, 1, 2), "f4"), "z": np.ones((1, 1, 2), "f4"),
        "prediction": np.ones((1, 1, 2), "f4"), "errors": np.float32([0.5]), "index": np.int64([0]),
    } | changes  # fmt: skip
    content = io.BytesIO()
    np.savez(content, **{f"1x/{name}": values for name, values in arrays.items() if values is not None})
    return content.getvalue()


def zipped(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr(name, content)
    return file.getvalue()


DAMAGED = {
    "empty": b"",
    "a pickle": pickle.dumps([1]),
    "cut": archive()[:-30],
    "no arrays": zipped("1x/x.txt", b"text"),
    "objects": archive(x=np.array([{"a": 1}, 2], dtype=object)),
    "an array elsewhere": zipped("../../escaped.npy", archive()),
    "a name too few": archive(z=None),
    "a name too many": archive(more=np.ones(2, "f4")),
    "other precision": archive(u=np.ones((1, 1, 2))),
    "complex": archive(u=np.ones((1, 1, 2), "c8")),
    "not a number": archive(prediction=np.full((1, 1, 2), np.nan, "f4")),
    "another shape": archive(u=np.ones((1, 1, 3), "f4")),
    "another count": archive(errors=np.float32([0.5, 0.5])),
    "other outputs": archive(prediction=np.ones((1, 2, 2), "f4")),
    "no channels": archive(u=np.ones((1, 0, 2), "f4")),
    "points beyond counting": archive(**{name: np.ones((1, 1, 2049), "f4") for name in ("u", "z", "prediction")}
                                      | {"x": np.ones(2049, "f4")}),
}  # fmt: skip


def test_the_archive_itself_is_a_gallery(tmp_path):
    (tmp_path / "gallery.npz").write_bytes(archive())
    assert read_gallery(tmp_path / "gallery.npz")["1x"].errors.tolist() == [0.5]


def test_outside_of_a_mesh_there_is_nothing(tmp_path):
    grid = Grid.mesh([[0.0, 0], [1, 0], [0, 1]], [[0, 1, 2]])
    samples = Samples(torch.ones(2, 1, 3), torch.ones(2, 1, 3), grid)
    write_gallery(Gallery({"1x": show(samples.z, samples, torch.zeros(2))}), tmp_path / "gallery.npz")
    found = read_gallery(tmp_path / "gallery.npz")["1x"]
    x, y = np.meshgrid(found.x, found.y, indexing="ij")
    for values in (found.u, found.z, found.prediction):
        assert np.isnan(values[:, :, x + y > 1.06]).all()
        assert (values[:, :, x + y < 1] == 1).all()


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_is_one_line_that_names_the_file(tmp_path, kind):
    path = tmp_path / "gallery.npz"
    path.write_bytes(DAMAGED[kind])
    with pytest.raises(DataError, match="operformer evaluate") as caught:
        read_gallery(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataError, match="cannot read"):
            read_gallery(path)
