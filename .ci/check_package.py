"""Build the sdist and the wheel, install the wheel in an environment of its own, and compare all of them with the tree.

    python .ci/check_package.py

The environment has this wheel and nothing else; what the wheel depends on is read from the environment that runs this
script, so nothing is downloaded.
"""

import filecmp
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_SDIST = (
    *("pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "SECURITY.md", "Makefile", "mkdocs.yml"),
    *("results/README.md", "tests/conftest.py", "docs/making/formulas.py"),
)
IN_WHEEL = (
    "operformer/py.typed",
    *(f"operformer/runs/report/templates/{name}" for name in ("page.html", "explorer.js")),
    *(
        f"operformer/models/{name}/model.safetensors"
        for name in ("lorenz-tno", "darcy-vitno", "darcy-lognormal-spectral", "darcy-piecewise-spectral")
    ),
)


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        build(ROOT, folder / "dist", "sdist", "wheel")
        (wheel,), (sdist,) = ((folder / "dist").glob(pattern) for pattern in ("*.whl", "*.tar.gz"))
        check_wheel(wheel)
        check_sdist(sdist, wheel, folder / "unpacked")
        check_installation(wheel, folder / "environment")
        print(f"{wheel.name} ({wheel.stat().st_size / 1e3:.0f} kB) and {sdist.name} are whole, and the wheel runs")


def build(source, target, *kinds):
    options = [option for kind in kinds for option in ("--target", kind)]
    run([sys.executable, "-m", "hatchling", "build", *options, "--directory", str(target)], cwd=source)


def check_wheel(wheel):
    """Every file of the package is in the wheel, and no other."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
    kept = (path for path in (ROOT / "operformer").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    tree = {path.relative_to(ROOT).as_posix() for path in kept}
    demand(packed == tree, f"the wheel differs from the tree: {sorted(packed ^ tree)}")
    demand(packed.issuperset(IN_WHEEL), f"the wheel lacks one of {IN_WHEEL}")
    demand(len(licences) == 1, "the wheel lacks its licence")


def check_sdist(sdist, wheel, folder):
    """The sdist builds the same wheel, to the byte."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    for name in IN_SDIST:
        demand((source / name).is_file(), f"the sdist lacks {name}")
    build(source, folder / "dist", "wheel")
    (again,) = (folder / "dist").glob("*.whl")
    demand(again.name == wheel.name, f"the sdist builds {again.name}, the tree {wheel.name}")
    demand(filecmp.cmp(again, wheel, shallow=False), "the sdist builds another wheel than the tree")


def check_installation(wheel, folder):
    """The wheel alone starts, says its version, loads a model of its own and finds the machine usable."""
    venv.create(folder, symlinks=True)
    python, command = folder / "bin/python", folder / "bin/operformer"
    options = ["--no-deps", "--no-index", "--quiet", "--no-warn-script-location"]
    run([sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(wheel)], cwd=folder)
    own = Path(run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip())
    # A folder of a .pth file comes after the environment's own, and .pth files in it, such as that of an editable
    # installation, are not read.
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    version = wheel.name.split("-")[1]
    demand(run([command, "--version"], folder).strip() == version, f"operformer --version is not {version}")
    place = run([python, "-c", "import operformer; print(operformer.__file__, operformer.TNO.__name__)"], folder)
    demand(place.split() == [str(own / "operformer/__init__.py"), "TNO"], f"another operformer is imported: {place}")
    loaded = run([python, "-c", "import operformer; print(operformer.load('lorenz-tno').kind)"], folder)
    demand(loaded.strip() == "TNO", f"the model lorenz-tno is not there: {loaded}")
    print(run([command, "doctor"], folder), end="")


def run(command, cwd):
    """The output of a command that has to succeed, with no other package in its way."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    demand(done.returncode == 0, f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def demand(is_so, otherwise):
    if not is_so:
        sys.exit(f"package: {otherwise}")


if __name__ == "__main__":
    main()
