"""Files import downwards: no file of the package leads back to itself, not even by an import inside
a function or for a type checker.
"""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import attnscope as at

ROOT = Path(at.__file__).parent


def imported(tree, modules):
    """The modules of ours that a file names, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"a relative import of {node.module}"
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                yield deeper if deeper in modules else node.module


def graph(root):
    """Module -> those it imports."""
    modules = {}
    for path in root.rglob("*.py"):
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = path
    return {
        name: {x for x in imported(ast.parse(path.read_text()), modules) if x in modules}
        - {name}
        for name, path in modules.items()
    }


def test_no_file_leads_back_to_itself():
    order = list(
        TopologicalSorter(graph(ROOT)).static_order()
    )  # a cycle is an error that names it
    assert order.index("attnscope.errors") < order.index("attnscope.dynamics.train")


def test_a_circle_would_be_found(tmp_path):
    """An import inside a function counts."""
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").write_text("")
    (room / "one.py").write_text("from room.two import f\n")
    (room / "two.py").write_text("def f():\n    from room.one import g\n")
    found = graph(room)
    assert found["room.one"] == {"room.two"}
    assert found["room.two"] == {"room.one"}
