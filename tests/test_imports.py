"""The import graph: packages know only those below them, modules never know each other in circles."""

# DESIGN.md: Rooms

import ast
import json
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import operformer

ROOT = Path(operformer.__file__).parents[1]
sys.path.insert(0, str(ROOT / ".ci"))
from house import SHARED, edges_of, room  # noqa: E402
from syntax import imports, parse  # noqa: E402

MODULES = parse(ROOT)
# What each room may import. Everyone may use SHARED; nothing in the package imports `paper`, its first client.
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


def test_every_import_is_understood():
    assert imports(MODULES, "operformer.evaluation.loss", with_types=False) == {"operformer.domain"}
    assert imports(MODULES, "operformer.domain.quadrature", with_types=True) >= {"operformer.domain.grid"}
    assert "operformer.runs" in imports(MODULES, "operformer.commands.runs", with_types=False)  # inside a function
    imported = (node for tree in MODULES.values() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    assert not [node.module for node in imported if node.level]  # relative ones would not be seen


def test_rooms_import_along_the_edges_that_were_decided_on():
    assert edges_of(MODULES, with_types=True) == {(one, other) for one in EDGES for other in EDGES[one]}
    assert {room(module) for module in MODULES} == EDGES.keys() | SHARED | {""}


def test_shared_modules_import_no_room():
    shared = {f"operformer.{name}" for name in SHARED}
    assert {other for module in shared for other in imports(MODULES, module, with_types=True)} <= shared


def test_modules_do_not_import_in_circles():
    graph = {module: imports(MODULES, module, with_types=False) for module in MODULES}
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
    front = ast.walk(MODULES["operformer"])
    seen = {alias.name for node in front if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen - {"TYPE_CHECKING", "Any", "import_module"} == set(operformer.__all__)
