"""No result of one code is ever read as that of another: files edited around an import, helpers,
workers, reloads.

The reference needs no sweep: the numbers that the files, as they are when a process imports them,
plainly give.
"""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.patience import HANG

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.sweeps import package
from attnscope.sweeps.loaded import fingerprint
from attnscope.sweeps.run import plan_cells, run, sweep

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
    assert all(line.startswith((old, "refused")) for line in lines)
    # in this process the code is known
    assert workers or not any(line.startswith("refused") for line in lines)
    # nothing of the old is taken for the new
    assert process(folder, "sweep", workers) == [f"{new} 0"]
    assert process(folder, "sweep") == [f"{new} 2"]  # and what is right is used again
    for name, text in FILES.items():
        (folder / name).write_text(textwrap.dedent(text))
    again = process(folder, "sweep")
    assert again[0].rpartition(" ")[0] == old


FAST = ("imported late",)


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[] if one in FAST else pytest.mark.slow) for one in EDITS],
)
def test_every_kind_of_edit_is_noticed(folder, name):
    old = process(folder, "sweep")[0].removesuffix(" 0")
    arrange(folder, [name])
    (line,) = process(folder, "edit sweep")
    new = truth(folder)
    # loaded before the edit it is the same code, and reused; but what is imported on first use is
    # loaded after it
    assert line == (f"{new} 0" if name == "imported late" else f"{old} 2")
    assert process(folder, "sweep") == [f"{new} {2 if name == 'imported late' else 0}"]


def test_workers_that_load_other_files_are_refused_with_the_names_that_differ(folder):
    arrange(folder, ["helper", "helper's constant"])
    (line,) = process(folder, "edit sweep", workers=1)
    assert (
        line.startswith("refused all 2 cells")
        and "other code or values of helper.FACTOR, helper.scale;" in line
    )
    assert not list((folder / "runs").glob("*.npz"))


def test_comments_and_blank_lines_change_nothing(folder):
    process(folder, "sweep")
    for name in FILES:
        text = (folder / name).read_text()
        (folder / name).write_text(f"# a comment\n\n{text}\n# another\n")
    assert process(folder, "sweep", workers=1)[0].endswith(" 2")


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


# in one process


@pytest.fixture
def modules(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = [Path(name).stem for name in FILES]
    yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name)


def test_a_reloaded_helper_or_a_set_value_is_other_code(folder, modules, tmp_path):
    values = []
    for change in (None, "reload", "set"):
        if change == "reload":
            (folder / "helper.py").write_text(
                (folder / "helper.py").read_text().replace("FACTOR = 2", "FACTOR = 3")
            )
            importlib.reload(modules["helper"])
        elif change == "set":
            modules["helper"].TABLE["a"][0] = 0.25
        values.append(run(modules["cells"].f, {"x": [1]}, tmp_path / "runs").frame["y"][0])
        assert values[-1] == modules["cells"].f(1)["y"]
    assert len(set(values)) == 3


def scaled(x, by=2):
    return {"y": by * x}


@functools.lru_cache
def remembered(x):
    return {"y": x}


@dataclass(frozen=True)
class Line:
    slope: float = 2.0

    def at(self, x):
        return self.slope * x


LINE = Line(3.0)
TASK = at.SingleLocation(8, 4, signal=2.0)
NOISE = np.arange(5.0)


def along(x):
    return {"y": LINE.at(x) + NOISE[1]}


def of_task(x):
    return {"y": TASK.bayes_risk().value + x}


def chosen(x, name="scaled"):
    return globals()[name](x)


def test_what_is_not_a_plain_function_has_a_stable_key():
    jitted = pytest.importorskip("numba").njit(lambda x: 2 * x)
    jitted(1)  # compiled code comes with use
    for function in (
        remembered,
        along,
        of_task,
        chosen,
        lambda x: {"y": jitted(x)},
        functools.partial(scaled),
    ):
        keys = {plan_cells(function, {"x": [1]})[0].key for _ in range(2)}
        assert len(keys) == 1
    before = fingerprint(of_task)
    TASK.bayes_risk()  # may keep what it found
    assert not before.differences(fingerprint(of_task))


@pytest.mark.parametrize(
    ("function", "name", "value"),
    [
        (along, "LINE", Line(4.0)),
        (along, "NOISE", np.arange(5.0) + 1e-15),
        (of_task, "TASK", at.SingleLocation(8, 4, signal=2.0000000001)),
        (chosen, "scaled", lambda x: {"y": -x}),
    ],
)
def test_values_count_by_content(monkeypatch, function, name, value):
    before = fingerprint(function)
    monkeypatch.setitem(globals(), name, value)
    assert (
        any(name in part for part in before.differences(fingerprint(function)))
        or name == "scaled"
    )
    assert before.hash != fingerprint(function).hash


def test_the_functions_of_attnscope_that_are_reached_count():
    parts = fingerprint(of_task).parts
    assert {
        "attnscope.tasks.planted.single_location",
        "attnscope.numerics.integrals.bayes_integral",
        "attnscope.errors",
    } <= set(parts)
    assert not any(
        name.startswith(("attnscope_explorer", "attnscope.claims", "attnscope.sweeps"))
        for name in parts
    )


def of_room(x):
    import attnscope as at

    return {"y": at.theory.optimal_temperature(TASK, at.predictors.Erf)[0] + x}


def test_names_behind_the_doors_of_rooms_count():
    assert {"attnscope.theory.optima.optimum", "attnscope.theory.routes.shipped"} <= set(
        fingerprint(of_room).parts
    )


def test_changed_source_of_attnscope_is_refused(monkeypatch, tmp_path):
    file = next(name for name in package._seen if name.endswith("bayes_integral.py"))
    inode, size, changed = package._seen[file]
    monkeypatch.setitem(package._seen, file, (inode, size, changed - 1))
    with pytest.raises(
        AttnscopeError,
        match=r"source of attnscope\.numerics\.integrals\.bayes_integral has changed since",
    ):
        sweep(of_task, {"x": [1]}, tmp_path)
    assert sweep(scaled, {"x": [1]}, tmp_path)["y"][0] == 2  # which does not use it


@pytest.mark.slow
def test_an_edit_of_attnscope_under_way_is_refused_and_later_seen(folder):
    # found first: a script's folder is
    shutil.copytree(ROOT / "src" / "attnscope", folder / "attnscope")
    task = folder / "attnscope" / "tasks" / "planted" / "single_location.py"
    original = task.read_text()
    use = (
        "import attnscope as at\ndef f(x):\n    return {'y': at.SingleLocation(8, "
        "4).null_risk().value + x}\n"
    )
    (folder / "cells.py").write_text(use)
    (folder / "driver.py").write_text(
        DRIVER.replace("name.name", "'attnscope/tasks/planted/' + name.name")
    )
    (folder / "edited" / "single_location.py").write_text(original + "A = 1\n")
    first, second = process(folder, "sweep edit sweep")
    assert first.endswith(" 0") and second.startswith(
        "refused the source of attnscope.tasks.planted.single_location has"
    )
    assert process(folder, "sweep")[0].endswith(" 0")
    task.write_text(original)
    assert process(folder, "sweep")[0].endswith(" 2")
