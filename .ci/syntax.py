"""What the syntax of Python files tells about them: imports, functions, definitions, arguments. It prints nothing.

A tree is a dictionary from dotted module names, such as "operformer.domain.grid", to their parsed files.
"""

import ast

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def parse(root):
    """The modules of the package operformer/ below a folder."""
    paths = {module_name(path.relative_to(root)): path for path in (root / "operformer").rglob("*.py")}
    return {name: ast.parse(path.read_text()) for name, path in paths.items()}


def module_name(path):
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(modules, name, with_types):
    """The modules of the package that a module imports, anywhere in its text."""
    nodes = list(ast.walk(modules[name]))
    flags = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    checked = [node for node in nodes if isinstance(node, ast.If) and ast.unparse(node.test) in flags]
    inside = {id(inner) for node in checked for line in node.body for inner in ast.walk(line)}
    found = set()
    for node in nodes:
        if id(node) in inside and not with_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {imported(modules, node.module, alias.name) for alias in node.names}
    return found & modules.keys()


def imported(modules, module, name):
    """The module behind ``from module import name``; for a name of the front, the one that the front takes it from."""
    if f"{module}.{name}" in modules or module != "operformer":
        return f"{module}.{name}" if f"{module}.{name}" in modules else module
    homes = (node for node in ast.walk(modules[module]) if isinstance(node, ast.ImportFrom))
    return next((node.module for node in homes if name in {alias.name for alias in node.names}), module)


def functions(node, path):
    """Every function and method below a node: its dotted name, and its lines."""
    for child in ast.iter_child_nodes(node):
        here = f"{path}.{child.name}" if isinstance(child, (*FUNCTIONS, ast.ClassDef)) else path
        if isinstance(child, FUNCTIONS):
            yield here, child.end_lineno - child.lineno + 1
        yield from functions(child, here)


def definition(modules, module, name):
    """The class or function that a module knows by this name, after the module that defines it; None for others."""
    tree = modules.get(module, ast.Module([]))
    for node in reversed(tree.body):  # the last one, since overloads come first
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name == name:
            return module, node
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return definition(modules, node.module, alias.name)
    return None


def is_dataclass(node):
    return any(ast.unparse(decorator).startswith("dataclass") for decorator in node.decorator_list)


def n_arguments(modules, module, node):
    """The arguments of the constructor that a class has or inherits, without self, *args and **kwargs."""
    for inner in node.body:
        if isinstance(inner, FUNCTIONS) and inner.name == "__init__":
            given = inner.args
            return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1
    own = [inner for inner in node.body if isinstance(inner, ast.AnnAssign)] if is_dataclass(node) else []
    own = [inner for inner in own if not ast.unparse(inner.annotation).startswith("ClassVar")]
    bases = (definition(modules, module, ast.unparse(base)) for base in node.bases)
    return len(own) + sum(n_arguments(modules, *base) for base in bases if base)
