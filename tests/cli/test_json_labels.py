"""Labels of every type through `predict` and `locate`: valid JSON, readable tables, files that can be
written, models that can be read back.
"""

import json
from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from helpers.commands import run

import attnscope as at
from attnscope.cli.json_text import json_text, json_value

TOKENS = np.random.default_rng(0).standard_normal((24, 3, 2))
SECOND = np.arange(24) % 2
THIRD = np.longdouble(1) / np.longdouble(3)  # more digits than float64 has
LABELS = {
    "longdouble": np.array([0.5, 1.5], np.longdouble) * 2,
    "bytes": np.array([b"no", b"yes"]),
    "date": np.array(["2026-01-05", "2026-01-06"], "datetime64[D]"),
    "nanoseconds": np.array(["2026-01-05", "2026-01-06"], "datetime64[ns]"),
    "time span": np.array([1, 2], "timedelta64[s]"),
    "complex": np.array([1 + 2j, 3 - 1j]),
    "bool": np.array([False, True]),
    "int8": np.array([-3, 4], np.int8),
    "uint64": np.array([2**63, 2**63 + 2], np.uint64),
    "float32": np.array([0, 1], np.float32),
    "text": np.array(["a", "b"]),
    "object": np.array(["a", "b"], object),
}
SHOWN = {  # the first class in JSON
    "longdouble": 1.0,
    "bytes": "no",
    "date": "2026-01-05",
    "nanoseconds": "2026-01-05T00:00:00.000000000",
    "time span": "1 seconds",
    "complex": "1+2j",
    "bool": False,
    "int8": -3,
    "uint64": 2**63,
    "float32": 0.0,
    "text": "a",
    "object": "a",
}


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


def strict(text):
    """JSON without the NaN and Infinity that Python reads."""
    return json.loads(text, parse_constant=no_constant)


@pytest.mark.parametrize("name", LABELS)
def test_predict_and_locate_say_every_label(name, tmp_path):
    y = LABELS[name][SECOND]
    np.savez(tmp_path / "bags.npz", bags=TOKENS, y=y.astype(str) if name == "object" else y)
    model = at.SingleLocationClassifier(alpha=(np.inf, 1.0), components=None)
    model.fit(TOKENS, y).save(tmp_path / "model.npz")
    both = (tmp_path / "model.npz", tmp_path / "bags.npz")
    code, out, said = run("predict", *both, "--target", "y", "--json")
    assert code == 0, said
    rows = strict(out)["rows"]
    classes = [json_value(x) for x in model.classes_]
    assert classes[0] == SHOWN[name]
    assert [row["prediction"] for row in rows] == [
        classes[i] for i in (model.predict(TOKENS) == model.classes_[1]).astype(int)
    ]
    assert [row["y"] for row in rows] == [classes[i] for i in SECOND]
    code, out, said = run("locate", *both, "--json")
    assert code == 0, said
    assert [row["token"] for row in strict(out)["rows"]] == model.locate(TOKENS).tolist()
    assert run("predict", *both, "--interval", "0.5")[0] == 0
    for ending in (".csv", ".parquet", ".npz"):
        code, _, said = run("predict", *both, "--out", tmp_path / f"out{ending}")
        assert code == 0, said


def test_the_writer_has_a_form_for_every_value():
    values = {
        np.longdouble("0.5"): 0.5,
        THIRD: str(THIRD),
        np.longdouble("inf"): None,
        float("nan"): None,
        float("-inf"): None,
        b"\xff\x41": "\\xffA",
        np.datetime64("NaT"): None,
        np.timedelta64(5, "m"): "5 minutes",
        2 - 1j: "2-1j",
        Decimal("0.10"): "0.10",
        np.bool_(True): True,
        np.int16(-7): -7,
        np.float64(0.1): 0.1,
        np.str_("word"): "word",
        date(2026, 1, 5): "2026-01-05",
        timedelta(seconds=3): "0:00:03",
        pd.Timestamp("2026-01-05"): "2026-01-05T00:00:00",
        (1, 2.5): [1, 2.5],
        None: None,
    }
    for value, wanted in values.items():
        found = strict(json_text([value]))[0]
        assert found == wanted and type(found) is type(wanted), value
    for missing in (pd.NA, pd.NaT):
        assert json_value(missing) is None
    assert np.longdouble(json_value(THIRD)) == THIRD
    nested = {1: np.array([[1, 2]]), "b": {"c": np.array([1.5, np.nan])}, None: {3}}
    assert strict(json_text(nested)) == {
        "1": [[1, 2]],
        "b": {"c": [1.5, None]},
        "null": [3],
    }


def test_every_command_prints_by_the_one_writer():
    """No command has a `json.dumps` of its own."""
    import attnscope.cli as cli

    folder = cli.__path__[0]
    from pathlib import Path

    users = [
        p.name for p in Path(folder).glob("*.py") if "json.dumps" in p.read_text("utf-8")
    ]
    assert users == ["json_text.py"]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
@pytest.mark.parametrize("form", ["list", "array", "series", "table"])
def test_missing_labels_are_counted(missing, form):
    words = ["a" if i % 2 else "b" for i in range(24)]
    words[3] = words[8] = missing
    model = at.SingleLocationClassifier(alpha=(np.inf, 1.0), components=None)
    if form == "table":
        rows = pd.DataFrame(TOKENS.reshape(-1, 2), columns=["u", "v"])
        rows["bag"] = np.repeat(np.arange(24), 3)
        rows["y"] = pd.Series(np.repeat(np.array(words, object), 3), dtype=object)
        with pytest.raises(at.AttnscopeError, match="none in 6 of 72 rows, the first row 9"):
            model.fit(rows, "y")
        return
    given = {"list": list, "array": lambda x: np.array(x, object), "series": pd.Series}[form]
    with pytest.raises(at.AttnscopeError) as refused:
        model.fit(TOKENS, given(words))
    assert "got 2 missing of 24, the first for bag 3; drop those bags" in str(refused.value)
