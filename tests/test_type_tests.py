"""Who may ask for the class of a predictor or task: the tables, and nobody else."""

import ast
from importlib import import_module
from inspect import isclass
from pathlib import Path
from pkgutil import walk_packages

import pytest

import attnscope as at
from attnscope import registry

TABLES = (
    "tasks/base.py",
    "theory/route.py",
    "dynamics/engines/engine_table.py",
    "registry.py",
)


ROOTS = {"Predictor", "Heads", "SequenceModel", "FullAttention", "Task", "PlantedTask"}


SOME = {"Erf", "MultiHead", "JointHeads", "OptimalSigma", "RowColumn", "DenseNet", "Planted"}


def kinds():
    """Names of every predictor and task: the catalogue's, their bases and their heirs."""
    rows = [*registry.TASKS.values(), *registry.PREDICTORS.values()]
    bases = {base for row in rows for base in row.kind.__mro__}
    own = [base for base in bases if base.__module__.startswith("attnscope")]
    known = ROOTS | {base.__name__ for base in own}
    for room in ("predictors", "tasks", "theory"):
        path = import_module(f"attnscope.{room}").__path__
        for info in walk_packages(path, f"attnscope.{room}."):
            here = vars(import_module(info.name)).values()
            classes = [x for x in here if isclass(x)]
            known |= {x.__name__ for x in classes if known & {y.__name__ for y in x.__mro__}}
    return known


def _asked(node):
    """What a node compares a type with."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
        return node.args[1:]
    if isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
        alike = (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)
        return [x for x, how in zip(node.comparators, node.ops) if isinstance(how, alike)]
    return [node.cls] if isinstance(node, ast.MatchClass) else []


def type_tests(source, known):
    """(line, names) of every test of the source whether something is one of these classes."""
    found = []
    for node in ast.walk(ast.parse(source)):
        inside = [x for one in _asked(node) for x in ast.walk(one)]
        names = {x.id for x in inside if isinstance(x, ast.Name)}
        names |= {x.attr for x in inside if isinstance(x, ast.Attribute)}
        if names & known:
            found.append((node.lineno, sorted(names & known)))
    return found


def test_no_type_test_on_predictors_or_tasks_outside_the_tables():
    """What serves what is said by the tables and the objects: nobody need know a new kind."""
    known = kinds()
    assert known >= SOME
    assert not known & {"Batch", "InverseTime", "Overlaps", "Estimate", "Route"}
    home = Path(at.__file__).parent
    files = {path.relative_to(home).as_posix(): path for path in home.rglob("*.py")}
    assert files.keys() >= set(TABLES)
    outside = [x for x in files if x not in TABLES]
    tests = {x: type_tests(files[x].read_text(encoding="utf-8"), known) for x in outside}
    assert {x: found for x, found in tests.items() if found} == {}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("isinstance(x, Erf)", ["Erf"]),
        ("isinstance(x, (int, at.MultiHead))", ["MultiHead"]),
        ("isinstance(x, Softmax | None)", ["Softmax"]),
        ("type(task) is SingleLocation", ["SingleLocation"]),
        ("issubclass(kind, Componentwise)", ["Componentwise"]),
    ],
)
def test_a_planted_type_test_is_found(line, named):
    assert type_tests(line, kinds()) == [(1, named)]
    assert type_tests("isinstance(x, (int, str)); type(x) is float", kinds()) == []
