"""The import graph: packages know only those below them, modules never know each other in circles."""

import ast
import json
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import operformer

ROOT = Path(operformer.__file__).parent
# What each room may import. Everyone may use SHARED; nothing in the package imports `paper`, its first client.
SHARED = {"errors", "files", "settings", "terminal", "text"}
EDGES = {
    "domain": set(),
    "kernels": set(),
    "operators": {"domain", "kernels"},
    "problems": {"domain"},
    "data": {"domain", "problems"},
    "evaluation": {"domain", "operators", "problems"},
    "training": {"domain", "kernels", "operators", "problems", "evaluation"},
    "runs": {"domain", "operators", "problems", "data", "evaluation", "training"},
    "sharing": {"domain", "operators", "runs"},
    "commands": {"domain", "operators", "problems", "data", "evaluation", "runs", "sharing"},
    "cli": {"commands"},
}
HEAVY = ("matplotlib", "cyclopts", "jinja2", "h5py", "scipy")


def module_name(path):
    parts = ["operformer", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in ROOT.rglob("*.py")}


def imports(module, with_types):
    """The modules of this package that a module imports, anywhere in its text; for type checking only if asked."""
    tree = ast.parse(MODULES[module].read_text())
    skipped = set()
    if not with_types:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                skipped |= {id(inner) for inner in ast.walk(node)}
    found = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else node.module)
    return {name for name in found if name.split(".")[0] == "operformer"}


def package(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def test_every_import_is_understood():
    assert imports("operformer.evaluation.loss", with_types=False) == {"operformer.domain"}
    assert imports("operformer.domain.quadrature", with_types=True) >= {"operformer.domain.grid"}
    assert "operformer.runs" in imports("operformer.commands.runs", with_types=False)  # inside a function
    for module in MODULES:
        assert imports(module, with_types=True) <= MODULES.keys()


def edges():
    """The pairs of rooms of which the first imports the second."""
    pairs = {(package(module), package(other)) for module in MODULES for other in imports(module, with_types=True)}
    return {
        (one, other)
        for one, other in pairs
        if one != other and "operformer" not in (one, other) and other not in SHARED
    }


def test_rooms_import_along_the_edges_that_were_decided_on():
    assert edges() == {(room, other) for room in EDGES for other in EDGES[room]}
    assert {package(module) for module in MODULES} == EDGES.keys() | SHARED | {"operformer"}


def test_shared_modules_import_no_room():
    pairs = {(package(module), package(other)) for module in MODULES for other in imports(module, with_types=True)}
    assert {other for one, other in pairs if one in SHARED} <= SHARED


def test_modules_do_not_import_in_circles():
    graph = {module: imports(module, with_types=False) for module in MODULES}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None
    assert order.index("operformer.errors") < order.index("operformer.cli")


def imported_by(program, modules):
    """Those of the modules that a program imports."""
    program = f"import json, sys; {program}; print(json.dumps([m for m in {modules} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_front_imports_neither_plots_nor_trainer_nor_command_line():
    assert imported_by("from operformer import *", ("torch", *HEAVY)) == ["torch"]


def test_the_front_alone_and_the_command_line_do_not_import_torch():
    for program in ("import operformer", "import operformer.cli"):
        assert imported_by(program, ("torch", "numpy", "scipy", "h5py", "matplotlib")) == []


def test_every_name_of_the_front_is_found_where_it_is_defined():
    for name in operformer.__all__:
        found = getattr(operformer, name)
        assert found is getattr(sys.modules[found.__module__], name)
        assert name in dir(operformer)
    assert operformer.operators.TNO is operformer.TNO
    assert not hasattr(operformer, "nothing")


def test_type_checkers_see_the_names_that_are_there():
    tree = ast.parse(MODULES["operformer"].read_text())
    seen = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen - {"TYPE_CHECKING", "Any", "import_module"} == set(operformer.__all__)
