"""Keys and seeds of cells: what they depend on, and what changes them."""

from __future__ import annotations

import functools
import importlib
import json
import sys

import pytest
from helpers import sweep_cells
from helpers.sweep_keys import one_key
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.errors import AttnscopeError
from attnscope.sweeps.key import make_cell
from attnscope.sweeps.rows import checked_call
from attnscope.sweeps.run import plan_cells, sweep
from attnscope.sweeps.source import Fingerprint, code_version, fingerprint
from attnscope.sweeps.text import canonical, digest, plain

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(values, values)
def test_canonical_text_is_one_to_one_and_round_trips(a, b):
    a, b = plain(a, "a"), plain(b, "b")
    assert canonical(json.loads(canonical(a))) == canonical(a)
    # repr tells 1, 1.0, True and 0.0, -0.0 apart, where == does not; dicts are compared without
    # their order
    assert (canonical(a) == canonical(b)) == (_typed(a) == _typed(b))


def _typed(value):
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    return [_typed(item) for item in value] if isinstance(value, list) else repr(value)


def test_key_depends_on_what_is_computed_only(tmp_path):
    base = one_key(sweep_cells.noisy, {"x": 1})
    different = [
        one_key(sweep_cells.noisy, {"x": 1.0}),
        one_key(sweep_cells.noisy, {"x": "1"}),
        one_key(sweep_cells.noisy, {"x": True}),
        one_key(sweep_cells.noisy, {"x": 1}, seed=1),
        one_key(sweep_cells.noisy, {"x": 1}, version="2"),
        one_key(functools.partial(sweep_cells.noisy, seed=4), {"x": 1}),
    ]
    assert len({base, *different}) == 7
    assert one_key(sweep_cells.logged, {"x": 1, "scale": 2.0}) == one_key(
        sweep_cells.logged, {"scale": 2.0, "x": 1}
    )


def test_key_is_the_same_in_every_process_and_release():
    cell = make_cell(sweep_cells.noisy, {"x": 0.1}, 0, "v1", "source")
    facts = {
        "function": "helpers.sweep_cells.noisy",
        "parameters": {"x": 0.1},
        "sweep_seed": 0,
    }
    # written out by hand: a change of this text throws away every user's store
    text = '{"function":"helpers.sweep_cells.noisy","parameters":{"x":0.1},"sweep_seed":0}'
    assert canonical(facts) == text
    assert cell.call["seed"] == int(digest(text)[:8], 16)


def test_sweep_seed_is_ignored_by_a_function_without_seed():
    assert one_key(sweep_cells.square, {"x": 1}, seed=0) == one_key(
        sweep_cells.square, {"x": 1}, seed=1
    )


def test_seed_of_a_cell_does_not_depend_on_order_neighbours_or_version():
    def calls(grid, version=""):
        return {
            cell.parameters["x"]: cell.call["seed"]
            for cell in plan_cells(sweep_cells.noisy, grid, 0, version)
        }

    seeds = calls({"x": [1, 2, 3]})
    assert (
        seeds == calls({"x": [3, 2, 1]}, version="edited")
        and seeds[2] == calls({"x": [2]})[2]
    )
    assert len(set(seeds.values())) == 3 and all(0 <= seed < 2**32 for seed in seeds.values())


def test_seed_in_the_grid_or_bound_wins(tmp_path):
    cells = plan_cells(sweep_cells.noisy, {"x": [0], "seed": [7]}, 3)
    assert cells[0].call == {"x": 0, "seed": 7}
    bound = functools.partial(sweep_cells.noisy, seed=7)
    frames = [
        sweep(sweep_cells.noisy, {"x": [0], "seed": [7]}, tmp_path),
        sweep(bound, {"x": [0]}, tmp_path),
    ]
    assert frames[0]["draw"][0] == frames[1]["draw"][0]


def test_lambdas_of_one_line_are_told_apart(tmp_path):
    def times(b):
        return lambda x: {"y": b * x}

    same_line = [lambda x: {"y": x + 1}, lambda x: {"y": x + 2}]
    defaults = [lambda x, a=a: {"y": a * x} for a in (5, 7)]
    functions = [*same_line, *defaults, times(11), times(13)]
    assert [sweep(f, {"x": [2]}, tmp_path)["y"][0] for f in functions] == [
        3,
        4,
        10,
        14,
        22,
        26,
    ]


def test_closure_over_an_object_is_refused(tmp_path):
    thing = object()
    with pytest.raises(
        AttnscopeError,
        match=r"function of sweep must be one whose code .* uses thing, an object",
    ):
        sweep(lambda x: {"y": id(thing)}, {"x": [1]}, tmp_path)


def test_edited_source_changes_the_key_but_not_the_seed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    # its time stamp is too coarse for edits this close
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "edited_cells.py"
    file.write_text("def f(x, seed):\n    return {'y': x}\n")
    module = importlib.import_module("edited_cells")
    cells = []
    for body in ("return {'y': x}", "return {'y': x}  # the same", "return {'y': 1 * x}"):
        file.write_text(f"def f(x, seed):\n\n    {body}\n")
        importlib.reload(module)
        cells.append(plan_cells(module.f, {"x": [1]})[0])
    assert cells[0].call == cells[1].call == cells[2].call
    assert cells[0].key == cells[1].key != cells[2].key
    sys.modules.pop("edited_cells")


def test_code_version_follows_packages_and_modules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "roomy"
    (package / "inner").mkdir(parents=True)
    for file in (
        package / "__init__.py",
        package / "inner" / "__init__.py",
        package / "inner" / "deep.py",
    ):
        file.write_text("a = 1\n")
    (tmp_path / "lonely.py").write_text("a = 1\n")
    first = code_version(["roomy", "lonely"])
    assert first == code_version(["lonely", "roomy"]) != code_version(["roomy"])
    (package / "inner" / "deep.py").write_bytes(b"a = 1\r\n")
    assert code_version(["roomy", "lonely"]) == first
    (package / "inner" / "deep.py").write_text("a = 2\n")
    assert code_version(["roomy", "lonely"]) != first
    for refused in (["no_such_room"], ["math"], "roomy"):
        with pytest.raises(AttnscopeError, match="code_version must be"):
            code_version(refused)


def test_worker_with_other_source_is_refused():
    parts = fingerprint(sweep_cells.square).parts
    for name, other in (("helpers.sweep_cells:square", "other code"), ("numpy", "numpy 0.1")):
        with pytest.raises(
            AttnscopeError,
            match=rf"same code of helpers\.sweep_cells\.square .* or versions of {name};",
        ):
            checked_call(
                sweep_cells.square, Fingerprint("other hash", {**parts, name: other}), x=1
            )
    code = Fingerprint(
        "hash with data", {**parts, "depends:data.csv": "a"}
    )  # not on every node
    assert checked_call(sweep_cells.square, code, x=3) == [{"square": 9.0}]


def test_a_file_that_is_no_python_by_now_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "breaking.py").write_text("def f(x):\n    return {'y': x}\n")
    function = importlib.import_module("breaking").f
    (tmp_path / "breaking.py").write_text("def f(x:\n")
    with pytest.raises(AttnscopeError, match="its source cannot be read"):
        one_key(function, {"x": 1})
    assert one_key(function, {"x": 1}, version="1")
    sys.modules.pop("breaking")
