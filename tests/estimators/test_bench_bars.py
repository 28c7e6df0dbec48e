"""The bench of the estimators, its own code: bars on results made by hand, at their edge and one
float64 beyond.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.bench_modules import bench_modules
from helpers.tolerances import FORMULA
from scipy import stats


@pytest.fixture(scope="module")
def bench():
    with bench_modules() as found:
        yield found


def above(x):
    return float(np.nextafter(x, np.inf))


def below(x):
    return float(np.nextafter(x, -np.inf))


def result(**measured):
    """What one seed measured: lists over parts, here of one part unless a list is given."""
    return {name: x if isinstance(x, list) else [x] for name, x in measured.items()}


RATIOS = [  # case, models beside ours, what ours is measured against, bar
    ("base", ("reference", "ABMIL"), "Bayes", 1.15),
    ("base", ("reference", "ABMIL"), "ABMIL", 0.7),
    ("n=120", ("reference", "ABMIL"), "Bayes", 2.5),
    ("n=120", ("reference", "ABMIL"), "ABMIL", 0.1),
    ("key signal halved", ("ABMIL",), "ABMIL", 0.25),
    ("L=60, n=300", ("reference",), "Bayes", 1.3),
    ("correlated background", ("reference",), "location known", 1.2),
    ("key.value=.7", ("reference",), "location known", 1.2),
    ("two relevant tokens", ("ABMIL",), "ABMIL", 1.0),
    ("t4 tokens", ("reference",), "location known", 3.0),
    ("digits max n=400", ("ABMIL",), "ABMIL", 0.5),
    ("text n=60", ("ABMIL",), "ABMIL", 0.5),
    ("digits 8 n=600", ("ABMIL",), "ABMIL", 1.2),
]


def one_case(bench, case, models, ours):
    peer = result(error=1.0, bayes=1.0, known=1.0, seconds=1.0, variance=100.0) | {
        "one training": [1.0]
    }
    mine = result(error=ours, coverage=0.9, location=1.0, seconds=0.1)
    return bench.bars.Results(
        {(case, "ours"): [mine]} | {(case, model): [peer] for model in models}
    )


@pytest.mark.parametrize(("case", "models", "against", "factor"), RATIOS)
def test_a_bar_is_met_at_its_edge_and_missed_one_float_beyond(
    bench, case, models, against, factor
):
    for ours, ok in ((factor, True), (above(factor), False)):
        found = [
            r
            for r in bench.bars.rows(one_case(bench, case, models, ours))
            if (r.case, r.against) == (case, against)
        ]
        assert found == [bench.bars.Row(case, ours, f"<= {factor:g}x", against, 1.0, ok)]
        assert found[0].ratio == ours and bench.bars.as_dict(found[0])["ratio"] == ours


def test_bars_without_a_baseline(bench):
    def row(name, **measured):
        mine = result(
            **({"error": 1.0, "coverage": 0.9, "seconds": 0.1, "location": 1.0} | measured)
        )
        peer = result(error=1.0, bayes=1.0, known=1.0, seconds=1.0, variance=4.0) | {
            "one training": [1.0]
        }
        found = {(case, "ours"): [mine] for case in ("base", "d=n=300", "text n=300")}
        found |= {
            (case, model): [peer]
            for case in ("base", "d=n=300")
            for model in ("reference", "ABMIL")
        }
        return next(r for r in bench.bars.rows(bench.bars.Results(found)) if r.case == name)

    both = {"location 0": 0.95, "location 1": below(0.95)}
    assert (
        row("base, location found", location=0.99).ok
        and not row("base, location found", location=below(0.99)).ok
    )
    assert (
        row("text n=300, location, class 0", **both).ok
        and not row("text n=300, location, class 1", **both).ok
    )
    nmse = row("d=n=300, NMSE", error=1.0, **both)
    assert (nmse.ours, nmse.bar, nmse.ok, nmse.ratio) == (0.25, "<= 0.25", True, None)
    assert not row("d=n=300, NMSE", error=above(1.0), **both).ok


def test_robust_and_the_best_variant_have_rows_of_their_own(bench):
    t4 = "t4 tokens"
    key = "digits key n=150"
    errors = {
        (t4, "ours"): 4.0,
        (t4, "robust"): 3.0,
        (key, "ours"): 1.3,
        (key, "attention"): 1.0,
        (key, "sigmoid"): 2.0,
    }
    found = {of: [result(error=x, coverage=0.9)] for of, x in errors.items()} | {
        (t4, "reference"): [result(known=1.0)]
    }
    said = {
        r.case: r
        for r in bench.bars.rows(bench.bars.Results(found))
        if not r.case.startswith("intervals")
    }
    assert [said[name].ok for name in (t4, f"{t4}, robust", key)] == [False, True, False]
    assert said[key].against == "attention" and said[key].ratio == 1.3
    found[key, "attention"] = [result(error=1.4)]  # now ours is the best of all
    said = {r.case: r for r in bench.bars.rows(bench.bars.Results(found))}
    assert (said[key].against, said[key].ratio, said[key].ok) == ("ours", 1.0, True)


def test_medians_over_seeds_of_means_over_parts(bench):
    found = {
        ("a", "m"): [{"error": parts} for parts in ([1.0, 5.0], [10.0, 20.0], [2.0, 6.0])]
    }
    results = bench.bars.Results(found)
    assert results.median("a", "m") == 4.0
    assert (
        ("a", "m") in results
        and ("a", "other") not in results
        and ("b", "m") not in bench.bars.Results({("b", "m"): []})
    )


def test_auc_is_a_mean_over_folds_with_its_standard_error(bench):
    folds = np.random.default_rng(3).uniform(0.7, 1.0, (5, 5))
    results = bench.bars.Results({("musk1", "ABMIL"): [{"auc": list(f)} for f in folds]})
    assert results.auc("musk1", "ABMIL") == pytest.approx(
        (np.sum(folds) / 25, stats.sem(folds.ravel())), rel=FORMULA
    )


@pytest.mark.parametrize("case", ["musk1", "elephant"])
def test_auc_may_be_one_standard_error_below_the_best_peer(bench, case):
    found = {
        (case, m): [result(auc=[a - 0.02, a + 0.02], seconds=1.0)]
        for m, a in (("boosting", 0.8), ("prime", 0.9))
    }
    mean, error = bench.bars.Results(found).auc(case, "prime")
    assert error == pytest.approx(0.02)  # sqrt(2 * .02^2 / 1) / sqrt(2)
    for ours, ok in ((mean - error, True), (below(mean - error), False)):
        found[case, "ours"] = [result(auc=[ours, ours], seconds=1.0)]
        (row,) = bench.bars.rows(bench.bars.Results(found))
        assert row == bench.bars.Row(
            f"{case}, AUC", ours, ">= -1 SE (0.020)", "prime", mean, ok
        )


def test_every_case_of_numbers_has_a_row_of_its_intervals(bench):
    edges = {"base": (0.86, 0.95), "n=120": (0.85, 0.97), "digits 8 n=600": (0.86, 0.95)}

    def ok(shares):
        found = {
            (case, "ours"): [result(coverage=x, error=1.0)] for case, x in shares.items()
        }
        found |= {
            ("musk1", "ours"): [result(auc=0.9)],
            ("Cramér-Rao s=5", "ours"): [result(regret=1.0)],
        }
        rows = list(bench.bars.rows(bench.bars.Results(found)))
        assert [r.case for r in rows] == [f"intervals, {case}" for case in edges]
        return [r.ok for r in rows]

    for end, beyond in ((0, below), (1, above)):
        assert ok({case: pair[end] for case, pair in edges.items()}) == [True] * 3
        assert ok({case: beyond(pair[end]) for case, pair in edges.items()}) == [False] * 3


def test_every_case_with_ours_and_abmil_has_a_row_of_seconds(bench):
    peer = result(seconds=2.0, error=1.0, auc=[0.9, 0.9]) | {"one training": [0.25]}
    ours = {"base": 1.0, "two relevant tokens": above(1.0), "musk1": 0.5}
    # elephant: not yet run by ours
    found = {(case, "ABMIL"): [peer] for case in (*ours, "elephant")}
    found |= {
        (c, "ours"): [result(seconds=x, error=1.0, coverage=0.9, auc=[0.9, 0.9])]
        for c, x in ours.items()
    }
    rows = [
        r
        for r in bench.bars.rows(bench.bars.Results(found))
        if r.case.startswith("fit seconds")
    ]
    grid = "ABMIL, its grid"
    row = bench.bars.Row
    assert rows == [
        row("fit seconds, base", 1.0, "<= 0.5x", grid, 2.0, True),
        row("fit seconds, base", 1.0, "", "ABMIL, once", 0.25, None),
        row("fit seconds, two relevant tokens", above(1.0), "<= 0.5x", grid, 2.0, False),
        row("fit seconds, musk1", 0.5, "<= 0.5x", grid, 2.0, True),
    ]


def test_an_untrained_peer_is_named(bench):
    def trouble(error, auc):
        found = {
            ("base", "ABMIL"): [result(error=error)],
            ("base", "reference"): [result(variance=2.0)],
        }
        return bench.bars.untrained(
            bench.bars.Results(found | {("musk1", "ABMIL"): [result(auc=[auc, auc])]})
        )

    assert trouble(0.12, 0.85) == []
    assert trouble(above(0.12), 0.85) == ["NMSE 0.060 > 0.06 on base"]
    assert trouble(0.2, 0.8) == ["NMSE 0.100 > 0.06 on base", "AUC 0.800 < 0.85 on musk1"]
    assert bench.bars.untrained(bench.bars.Results({})) == []
