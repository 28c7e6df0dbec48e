"""What the stage shows in the views with a sequence of their own: the numbers of the very lines under
the figure.
"""

import json

import numpy as np
import pytest
from helpers.javascript import ASSETS, evaluated

pytest.importorskip(
    "dash", reason="the explorer needs dash: pip install 'attnscope[explorer]'"
)

from attnscope_explorer.compute import cached_view
from attnscope_explorer.stage_data import WEIGHTS_TITLE
from attnscope_explorer.state import VIEWS, default_state
from attnscope_explorer.views.convergence import STAGE_TOKENS

SHORT = 5.1e-4  # half a unit of the fourth digit, which is what bars keep
STAGE = [ASSETS / "numbers.js", ASSETS / "stage.js"]


def stage_of(view, **change):
    """The stage, the figure's traces, and the names of the lines under it."""
    what = cached_view(default_state(view).changed(**change))
    names = {}
    exec(what.code, names)
    # as the page gets it: keys are texts
    plotly = json.loads(json.dumps(what.plotly, allow_nan=False))
    return plotly["layout"]["meta"]["stage"], plotly["data"], names


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "bags"])
def test_every_view_has_the_task_on_stage(view):
    stage = cached_view(default_state(view)).plotly["layout"]["meta"]["stage"]
    assert stage["setting"] and stage["label"]


def test_the_posterior_stages_its_own_sequence():
    stage, _, names = stage_of("posterior", dim=30, noise=0.2)
    drawn = stage["setting"]["drawn"]
    np.testing.assert_allclose(np.array(drawn["tokens"])[:, 0], names["scores"], rtol=1e-12)
    np.testing.assert_allclose(np.array(drawn["tokens"])[:, 1], names["values"], rtol=1e-12)
    assert (drawn["location"], drawn["truth"]) == (names["location"], names["label"])
    overlaps = dict(zip(("kappa", "eta", "theta", "nu", "rho"), stage["overlaps"]))
    given = stage["setting"] | {"overlaps": overlaps}
    out = evaluated(STAGE, "attnscopeStage.sequence(given)", given)
    np.testing.assert_allclose(out["weights"], names["weights"]["softmax"], rtol=1e-9)
    np.testing.assert_allclose(out["posterior"], names["posterior"], rtol=1e-7, atol=1e-300)
    assert out["prediction"] == pytest.approx(names["predictions"]["softmax"], rel=1e-9)


def test_convergence_stages_the_weights_of_its_operators():
    stage, data, names = stage_of("convergence", keys=4, seed=2)
    traces = {t["meta"]["choice"]: t["meta"] for t in data if "choice" in t.get("meta", {})}
    assert set(traces) == {"softmax", "CME"}
    for name, meta in traces.items():
        given = meta["setting"]["given"]
        rows = dict(given["rows"])
        operator = {"softmax": names["softmax"], "CME": names["cme"]}[name]
        k, v, q = names["k"][:STAGE_TOKENS], names["v"][:STAGE_TOKENS], names["q"]
        np.testing.assert_allclose(rows["key along the query"], k @ q, rtol=SHORT)
        # the second route: the operator's own answer to these values
        assert given["prediction"] == pytest.approx(
            operator(q, k, v, STAGE_TOKENS)[0], rel=SHORT
        )
        assert given["truth"] == pytest.approx(names["truth"], rel=SHORT)
        assert np.dot(rows[WEIGHTS_TITLE], v[:, 0]) == pytest.approx(
            given["prediction"], abs=SHORT * np.abs(v).sum()
        )
    out = evaluated(STAGE, "attnscopeStage.sequence(given)", stage["setting"])
    assert (out["length"], out["location"]) == (STAGE_TOKENS, -1)


def test_bags_are_staged_one_by_one():
    stage, data, names = stage_of("bags", data="drawn", bag=3)
    assert stage["label"] == "bag 3" and stage["setting"]["given"] == stage["bags"]["2"]
    assert len(stage["bags"]) == len(names["test_y"])
    points = next(t for t in data if "intervals" in t.get("name", ""))
    for i in (0, 7, 50):
        given = stage["bags"][str(points["meta"]["bags"][i])]
        rows = dict(given["rows"])
        np.testing.assert_allclose(rows[WEIGHTS_TITLE], names["attention"][i], rtol=SHORT)
        np.testing.assert_allclose(
            rows["each token's own answer"], np.ravel(names["alone"][i]), rtol=SHORT
        )
        assert given["location"] == names["truth"][i]
        assert given["prediction"] == pytest.approx(points["y"][i], rel=SHORT)
        assert given["truth"] == pytest.approx(points["x"][i], rel=SHORT)
