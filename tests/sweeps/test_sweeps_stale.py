"""No result of one code is ever read as that of another: files edited around an import, helpers,
workers, reloads, packages.

The reference needs no sweep: the numbers that the files, as they are when a process imports them,
plainly give.
"""

from __future__ import annotations

import functools
import importlib
import linecache
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.patience import HANG
from helpers.sweep_keys import one_key

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.sweeps.run import dry_run, plan_cells, run, sweep
from attnscope.sweeps.source import fingerprint

FILES = {
    "cells.py": """
        import helper
        from shapes import Shape
        OFFSET = 100
        def f(x, more=1000):
            import late
            return {"y": helper.scale(x) + OFFSET + more + Shape(x).area() + late.tail()}
        """,
    "helper.py": """
        from deep import LIMIT
        FACTOR = 2
        TABLE = {"a": [1.0, 2.0]}
        def scale(x):
            return FACTOR * x + LIMIT + TABLE["a"][0]
        """,
    "deep.py": "LIMIT = 7\n",
    "late.py": "def tail():\n    return 50000\n",
    "shapes.py": """
        class Base:
            side = 3
        class Shape(Base):
            def __init__(self, x):
                self.x = x
            def area(self):
                return self.side * 1e-3 * self.x
        """,
}
# what is edited: (file, old text, new text), each of which changes the result
EDITS = {
    "body": ("cells.py", "helper.scale(x) +", "helper.scale(x) -"),
    "constant": ("cells.py", "OFFSET = 100", "OFFSET = 200"),
    "default": ("cells.py", "more=1000", "more=3000"),
    "helper": ("helper.py", "FACTOR * x", "FACTOR + x"),
    "helper's constant": ("helper.py", "FACTOR = 2", "FACTOR = 5"),
    "helper's table": ("helper.py", "[1.0, 2.0]", "[1.5, 2.0]"),
    "helper's helper": ("deep.py", "LIMIT = 7", "LIMIT = 8"),
    "imported late": ("late.py", "50000", "60000"),
    "method": ("shapes.py", "1e-3 * self.x", "2e-3 * self.x"),
    "base class": ("shapes.py", "side = 3", "side = 4"),
}
DRIVER = """
import sys
from pathlib import Path
from attnscope.errors import AttnscopeError
from attnscope.sweeps.run import run

def edit():
    for name in Path("edited").iterdir():
        Path(name.name).write_text(name.read_text())

def swept():
    try:
        report = run(cells.f, {"x": [3, 4]}, "runs", workers=WORKERS, progress=False)
        print(*report.frame["y"], report.reused)
    except AttnscopeError as error:
        print("refused", error)

if __name__ == "__main__":
    WORKERS = int(sys.argv[2]) or None
    import cells
    for step in sys.argv[1].split():
        {"edit": edit, "sweep": swept}[step]()
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "edited").mkdir()
    return tmp_path


def arrange(folder, names):
    """Lay the edited files ready; each edit is taken from the file as it is."""
    for name in names:
        file, old, new = EDITS[name]
        ready = folder / "edited" / file
        text = (ready if ready.exists() else folder / file).read_text()
        assert old in text
        ready.write_text(text.replace(old, new))


def process(folder, steps, workers=0):
    """A process that imports the files, then edits and sweeps as told: one line for each sweep."""
    path = os.pathsep.join([str(ROOT / "src"), str(folder)])
    done = subprocess.run(
        [sys.executable, "driver.py", steps, str(workers)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def truth(folder):
    """What the files give, without attnscope."""
    code = "import cells; print(*(float(cells.f(x)['y']) for x in (3, 4)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


ORDERS = ("edit sweep", "sweep edit sweep", "sweep edit")
MANY = ("body", "constant", "helper", "helper's helper")
# seven processes each
QUICK = [("edit sweep", MANY, 1), ("sweep edit sweep", MANY, 0)]
EDITED = [
    (order, edits, workers)
    for workers in (0, 1)
    for order in ORDERS
    for edits in (MANY, ("constant", "helper's constant"), ("helper's helper",))
]


@pytest.mark.parametrize(
    ("order", "edits", "workers"),
    [pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow) for case in EDITED],
    ids=str,
)
def test_edited_between_import_and_sweep_it_is_never_a_wrong_reuse(
    folder, order, edits, workers
):
    arrange(folder, edits)
    old = truth(folder)
    lines = process(folder, order, workers)  # it has loaded the old files, whatever it edits
    new = truth(folder)
    assert old != new
    # before the edit it computes, after it the old code has no name
    assert [line.partition(" ")[0] for line in lines] == [
        "refused" if "edit" in order.split()[:i] else old.partition(" ")[0]
        for i, step in enumerate(order.split())
        if step == "sweep"
    ]
    # nothing of the old is taken for the new
    assert process(folder, "sweep", workers) == [f"{new} 0"]
    assert process(folder, "sweep") == [f"{new} 2"]  # and what is right is used again
    for name, text in FILES.items():
        (folder / name).write_text(textwrap.dedent(text))
    again = process(folder, "sweep")
    assert again[0].rpartition(" ")[0] == old


def test_comments_and_blank_lines_and_docstrings_change_nothing(folder):
    process(folder, "sweep")
    for name in FILES:
        text = (folder / name).read_text()
        (folder / name).write_text(f"'A word.'\n# a comment\n\n{text}\n# another\n")
    assert process(folder, "sweep", workers=1)[0].endswith(" 2")


BUSY = """
import sys, json, decimal, xml.dom, late, helper, shapes, cells
from attnscope.sweeps.run import run
import attnscope as at
if __name__ == "__main__":
    cells.f(1), at.risk
    helper.__dict__["unused"] = 3
    print(run(cells.f, {"x": [3, 4]}, "runs", workers=1, progress=False).reused)
"""


def test_the_key_is_the_same_whatever_else_is_loaded_here_and_in_workers(folder):
    """The function imports in its body; one process has loaded all of it and more."""
    assert process(folder, "sweep")[0].endswith(" 0")
    assert process(folder, "sweep sweep")[-1].endswith(" 2")
    (folder / "driver.py").write_text(BUSY)
    assert process(folder, "") == ["2"]


@pytest.mark.slow
def test_a_script_sweeps_its_own_function_with_workers(folder):
    script = """
        import sys, helper
        from attnscope.sweeps.run import run
        SCALE = {scale}
        def own(x):
            return {{"y": SCALE * helper.scale(x)}}
        if __name__ == "__main__":
            report = run(own, {{"x": [1, 2]}}, "runs", workers=1, progress=False)
            print(*report.frame["y"], report.reused)
        """
    lines = []
    for scale in (1, 1, 3):
        (folder / "driver.py").write_text(textwrap.dedent(script.format(scale=scale)))
        lines += process(folder, "")
    assert lines == ["10.0 12.0 0", "10.0 12.0 2", "30.0 36.0 0"]


# in one process: modules are imported anew

PACKAGE = {
    "own.py": """
        import functools, json
        from enum import Enum
        from dataclasses import dataclass
        import lazy, dotted, spread.part, tool
        from star import *
        from lazy import thing as renamed
        from tool import doubled
        try:
            import missing_one
        except ImportError:
            missing_one = None
        TABLE = {"a": 1}
        TABLE["b"] = 10
        ROWS = []
        ROWS.append(5)
        COUNT = 1
        COUNT += 2
        SHIFT = functools.partial(pow, 2)
        if COUNT > 100:
            def branch(): return 0
        else:
            def branch(): return 7
        for step in range(3):
            pass
        class Kind(Enum):
            ONE = 1
        @dataclass
        class Line:
            slope: float = 2.0
            @property
            def twice(self): return 2 * self.slope
            @staticmethod
            def fixed(): return 11
        double = lambda x: 2 * x
        def unused(): return 1
        def outer():
            def inner(): return 13
            return inner()
        @doubled
        def decorated(): return 17
        def keyword(*, more=19): return more
        def own(x):
            'A word.'
            import dotted.late
            squares = [i for i in range(9) if i > 4]
            return {"y": float(
                x + TABLE["a"] + TABLE["b"] + ROWS[0] + COUNT + SHIFT(3) + branch() + step
                + Kind.ONE.value + Line().twice + Line.fixed() + double(x) + outer() + decorated()
                + keyword() + sum(squares) + renamed() + lazy.other() + dotted.near.value()
                + dotted.late.value() + spread.part.VALUE + starred() + tool.from_class()
                + (0 if missing_one is None else 1000)
            )}
        """,
    "lazy/__init__.py": """
        def __getattr__(name):
            from importlib import import_module
            return getattr(import_module("lazy._" + name), name)
        """,
    "lazy/_thing.py": "def thing(): return 23\n",
    "lazy/_other.py": "def other(): return 29\n",
    "dotted/__init__.py": "from .relative import near_by\n",
    "dotted/relative.py": "from . import near\ndef near_by(): return near\n",
    "dotted/near.py": "from .far import FAR\ndef value(): return 31 + FAR\n",
    "dotted/far.py": "FAR = 37\n",
    "dotted/late.py": "def value(): return 41\n",
    "dotted/idle.py": "IDLE = 1\n",
    "spread/part.py": "VALUE = 43\n",  # a package without a file of its own
    "star.py": "def starred(): return 47\n",
    "tool.py": """
        import functools
        START = 1
        def doubled(function):
            @functools.wraps(function)
            def wrapper(): return 2 * function()
            return wrapper
        class Base:
            def give(self): return 53
        class Derived(Base): pass
        def from_class(): return Derived().give()
        if START > 0:
            from_class.mark = 1
        """,
}
# file, old text, new text: each changes the result
NOTICED = {
    "body": ("own.py", "x + TABLE", "2 * x + TABLE"),
    "dict literal": ("own.py", '"a": 1}', '"a": 2}'),
    "item set at the top": ("own.py", '["b"] = 10', '["b"] = 11'),
    "method called at the top": ("own.py", "append(5)", "append(6)"),
    "constant": ("own.py", "COUNT = 1", "COUNT = 2"),
    "constant changed at the top": ("own.py", "+= 2", "+= 3"),
    "partial": ("own.py", "(pow, 2)", "(pow, 3)"),
    "branch taken": ("own.py", "return 7", "return 8"),
    "condition": ("own.py", "COUNT > 100", "COUNT > 1"),
    "loop at the top": ("own.py", "range(3)", "range(4)"),
    "enumeration": ("own.py", "ONE = 1", "ONE = 2"),
    "field of a dataclass": ("own.py", "float = 2.0", "float = 3.0"),
    "property": ("own.py", "return 2 * self", "return 3 * self"),
    "static method": ("own.py", "return 11", "return 12"),
    "lambda": ("own.py", "lambda x: 2", "lambda x: 3"),
    "function in a function": ("own.py", "return 13", "return 14"),
    "decorated function": ("own.py", "return 17", "return 18"),
    "decorator left out": ("own.py", "        @doubled\n", ""),
    "decorator": ("tool.py", "return 2 *", "return 3 *"),
    "default of a keyword": ("own.py", "more=19", "more=20"),
    "constant in a comprehension": ("own.py", "i > 4", "i > 5"),
    "another name imported": ("own.py", "import thing as", "import other as"),
    "lazy attribute, by name": ("lazy/_thing.py", "23", "24"),
    "lazy attribute, by dot": ("lazy/_other.py", "29", "30"),
    "lazy package": (
        "lazy/__init__.py",
        '"lazy._" + name), name)',
        '"lazy._thing"), "thing")',
    ),
    "module by dot": ("dotted/near.py", "31", "32"),
    "relative import": ("dotted/far.py", "37", "38"),
    "import in the body": ("dotted/late.py", "41", "42"),
    "package without a file": ("spread/part.py", "43", "44"),
    "star import": ("star.py", "47", "48"),
    "base class elsewhere": ("tool.py", "return 53", "return 54"),
    "class replaced": (
        "tool.py",
        "class Derived(Base): pass",
        "class Derived(Base): give = lambda self: 1",
    ),
    "file that was missing": ("missing_one.py", "", "VALUE = 1\n"),
}
HARMLESS = {
    "comment": ("own.py", "TABLE =", "# here\n        TABLE ="),
    "docstring": ("own.py", "A word", "Other words"),
    "definition not named": ("own.py", "unused(): return 1", "unused(): return 2"),
    "another import": ("own.py", "functools, json", "functools, json, wave"),
    "module not imported": ("dotted/idle.py", "1", "2"),
    "main block": (
        "own.py",
        "double = lambda",
        "if __name__ == '__main__': x = 1\n        double = lambda",
    ),
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes the files, with one edited, and gives the function imported from them."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    tops = {name.partition("/")[0].removesuffix(".py") for name in PACKAGE} | {"missing_one"}

    def forget():
        for name in [one for one in sys.modules if one.partition(".")[0] in tops]:
            sys.modules.pop(name)

    def imported(edit=("own.py", "", "")):
        file, old, new = edit
        for name, text in {**PACKAGE, file: PACKAGE.get(file, "")}.items():
            if name == file:
                assert old in text
                text = text.replace(old, new) if old else text + new
            if text:
                (tmp_path / name).parent.mkdir(exist_ok=True)
                (tmp_path / name).write_text(textwrap.dedent(text))
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("own").own

    yield imported
    forget()


@pytest.mark.parametrize("kind", NOTICED)
def test_every_kind_of_edit_is_noticed(package, kind):
    function = package()
    before = one_key(function, {"x": 3}), function(3)
    function = package(NOTICED[kind])
    after = (
        one_key(function, {"x": 3}),
        function(3) if kind != "file that was missing" else None,
    )
    assert before[0] != after[0] and before[1] != after[1]


@pytest.mark.parametrize("kind", HARMLESS)
def test_a_harmless_edit_keeps_the_key(package, kind):
    before = one_key(package(), {"x": 3})
    assert one_key(package(HARMLESS[kind]), {"x": 3}) == before


def test_a_call_keeps_the_key(package):
    """It imports, fills caches and runs what loads late."""
    function = package()
    before = one_key(function, {"x": 3})
    function(3)
    assert one_key(function, {"x": 3}) == before


LOADED = {
    name: edit
    for name, edit in EDITS.items()
    if name not in ("imported late",)  # which the process has not loaded yet
}


@pytest.mark.parametrize("name", LOADED)
def test_what_was_edited_after_its_import_is_refused_by_name(folder, monkeypatch, name):
    file, old, new = LOADED[name]
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = [one.removesuffix(".py") for one in FILES]
    try:
        module = importlib.import_module("cells")
        one_key(module.f, {"x": 1})
        text = (folder / file).read_text()
        (folder / file).write_text(text.replace(old, new))
        module_name = file.removesuffix(".py")
        with pytest.raises(
            AttnscopeError, match=rf"{module_name}\.\w+.* is not what its file says"
        ):
            sweep(module.f, {"x": [1]}, folder / "runs")
        importlib.reload(sys.modules[module_name])
        one_key(sys.modules["cells"].f, {"x": 1})
    finally:
        for one in names:
            sys.modules.pop(one, None)


def test_a_value_set_from_outside_is_refused(package):
    function = package()
    sys.modules["dotted.far"].FAR = 1
    with pytest.raises(AttnscopeError, match=r"dotted\.far\.FAR is not what its file says"):
        one_key(function, {"x": 1})


# distributions


def install(site, version):
    (site / "bought").mkdir(parents=True, exist_ok=True)
    (site / "bought" / "__init__.py").write_text("VALUE = 1\n")
    for info in site.glob("*.dist-info"):
        (info / "RECORD").unlink()
        info.rmdir()
    info = site / f"some_shop-{version}.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("bought/__init__.py,sha256=x,1\n")


def test_an_installed_distribution_counts_by_version_and_an_editable_one_by_its_files(
    tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "buyer.py").write_text(
        "import bought\ndef f(x):\n    return {'y': bought.VALUE}\n"
    )
    install(tmp_path, "1.0")
    function = importlib.import_module("buyer").f
    parts = fingerprint(function).parts
    assert parts["bought"] == "some_shop 1.0"
    install(tmp_path, "1.1")
    importlib.import_module("attnscope.sweeps.source")._distribution.cache_clear()
    assert fingerprint(function).parts["bought"] == "some_shop 1.1"
    # what an editable install lists is its .pth file
    (tmp_path / "some_shop-1.1.dist-info" / "RECORD").write_text("__editable__.pth,,\n")
    importlib.import_module("attnscope.sweeps.source")._distribution.cache_clear()
    assert len(fingerprint(function).parts["bought"]) == 64
    for name in ("buyer", "bought"):
        sys.modules.pop(name)


def of_attnscope(x):
    return {"y": at.SingleLocation(8, 4).null_risk().value + np.pi + x}


def test_attnscope_counts_by_its_version(monkeypatch):
    parts = fingerprint(of_attnscope).parts
    assert (
        parts["attnscope"] == at.__version__ and parts["numpy"] == f"numpy {np.__version__}"
    )
    before = one_key(at.run_experiment, {"name": "a"})
    assert set(fingerprint(at.run_experiment).parts) == {"attnscope", "python:version"}
    monkeypatch.setattr(at, "__version__", "9.9")
    assert one_key(at.run_experiment, {"name": "a"}) != before


# what has no file


def cell(source, name="<cell 1>", space=None):
    """Run a cell as a notebook does: its source is kept for tracebacks."""
    text = textwrap.dedent(source)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {"__name__": "__main__"} if space is None else space
    exec(compile(text, name, "exec"), space)
    return space


HELPER = "def helper(x): return {by} * x\nclass Line:\n    def rise(self): return {slope}\n"
USER = "import math\ndef f(x): return {'y': helper(x) + SCALE + DATA[0] + math.pi + Line().rise()}\n"


def test_a_function_of_a_notebook_counts_with_what_it_uses_of_other_cells():
    def key(by=2, scale=3, data=(1.0, 2.0), comment="", slope=1):
        space = cell(HELPER.format(by=by, slope=slope), "<cell 1>")
        space.update(SCALE=scale, DATA=np.array(data), UNUSED=object())
        return one_key(cell(USER + comment, "<cell 2>", space)["f"], {"x": 1})

    assert key() == key(comment="# a word\nat = 3\n")
    assert len({key(), key(by=4), key(scale=4), key(data=(1.0, 2.5)), key(slope=2)}) == 5


def test_what_has_no_source_asks_for_a_version():
    space: dict = {"__name__": "__main__"}
    exec("def f(x): return {'y': x}", space)
    with pytest.raises(
        AttnscopeError, match=r"its source cannot be read\); try version=\"1\""
    ):
        one_key(space["f"], {"x": 1})
    assert one_key(space["f"], {"x": 1}, version="1") != one_key(
        space["f"], {"x": 1}, version="2"
    )
    shown = cell("def f(x): return {'y': TASK.bayes_risk() + x}")
    shown["TASK"] = at.SingleLocation(8, 4)
    with pytest.raises(AttnscopeError, match="it uses TASK, an object"):
        one_key(shown["f"], {"x": 1})
    one_key(shown["f"], {"x": 1}, version="1")


@functools.lru_cache
def remembered(x):
    return {"y": x}


def scaled(x, by=2):
    return {"y": by * x}


def chosen(x, name="scaled"):
    return globals()[name](x)


def test_what_is_not_a_plain_function_has_a_stable_key():
    jitted = pytest.importorskip("numba").njit(lambda x: 2 * x)
    jitted(1)  # compiled code comes with use
    for function in (
        remembered,
        chosen,
        lambda x: {"y": jitted(x)},
        functools.partial(scaled),
    ):
        keys = {plan_cells(function, {"x": [1]})[0].key for _ in range(2)}
        assert len(keys) == 1


# what the rule cannot see, and what is kept all the same


def test_files_and_folders_of_depends_count_by_content(tmp_path):
    data = tmp_path / "data"
    (data / "inner").mkdir(parents=True)
    (data / "inner" / "a.csv").write_text("1\n")
    (tmp_path / "b.csv").write_text("2\n")
    key = lambda: plan_cells(scaled, {"x": [1]}, depends=[data, tmp_path / "b.csv"])[0].key
    keys = [key(), key()]
    (data / "inner" / "a.csv").write_text("3\n")
    keys.append(key())
    (tmp_path / "b.csv").write_text("4\n")
    keys.append(key())
    assert keys[0] == keys[1] and len(set(keys)) == 3
    grid = {"x": [1]}
    run(scaled, grid, tmp_path / "runs", depends=[data], progress=False)
    assert dry_run(scaled, grid, tmp_path / "runs", depends=[data]).todo == 0
    assert dry_run(scaled, grid, tmp_path / "runs").todo == 1
    for wrong in ("b.csv", ["no such file"], 3):
        with pytest.raises(AttnscopeError, match="depends of sweep must be"):
            sweep(scaled, grid, tmp_path / "runs", depends=wrong)


def test_accepted_code_keeps_the_cells_of_an_edited_function(package, tmp_path):
    store, grid = tmp_path / "runs", {"x": [1, 2]}
    first = run(package(), grid, store, progress=False)
    edited = package(NOTICED["body"])
    kept = run(edited, {"x": [1, 2, 3]}, store, accept_code=True, progress=False)
    assert (kept.computed, kept.reused) == (1, 2)
    assert kept.frame["y"][:2].tolist() == first.frame["y"].tolist()
    # under the key of today
    assert run(edited, grid, store, progress=False).reused == 2
    other = run(edited, grid, store, version="2", accept_code=True, progress=False)
    assert other.computed == 2


def test_accepted_code_takes_the_newest_of_several(package, tmp_path):
    store, grid = tmp_path / "runs", {"x": [1]}
    for age, kind in enumerate(("constant", "body", "partial")):
        key = plan_cells(package(NOTICED[kind]), grid)[0].key
        frame = run(package(NOTICED[kind]), grid, store, progress=False).frame
        os.utime(store / f"{key}.npz", (age, age))
    last = run(package(), grid, store, accept_code=True, progress=False)
    assert last.computed == 0 and last.frame["y"].tolist() == frame["y"].tolist()


def test_an_extended_grid_in_the_same_file_computes_only_what_is_new(folder):
    script = """
        from attnscope.sweeps.run import run
        def own(x):
            return {{"y": x}}
        GRID = {{"x": {values}}}
        report = run(own, GRID, "runs", progress=False)
        print(report.computed, report.reused)
        """
    lines = []
    for values in ([1, 2], [1, 2, 3]):
        (folder / "driver.py").write_text(textwrap.dedent(script.format(values=values)))
        lines += process(folder, "")
    assert lines == ["2 0", "1 2"]
