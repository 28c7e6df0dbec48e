"""Stationary points and landscapes of planted tasks: the search on the exact risk against the shipped
points, the search on nodes against the exact ones of a twin.

Sampled comparisons use 5 standard errors (6e-7 each, under a hundred of them). Those on nodes are
slow: each compiles once.
"""

import numpy as np
import pytest
from helpers.sign_location import SignLocation
from helpers.twins import Twin, exact_twin

import attnscope as at
from attnscope.figures.check import problems
from attnscope.theory.optima.planted_points import planted_points
from attnscope.theory.optima.planted_spheres import Spheres, surface_of
from attnscope.theory.overlaps import Overlaps, head_gram

SURE = 5
SOMEWHERE = Overlaps(0.5, 0.1, 0.2, 0.6, -0.1)


def by_name(points, name):
    return next(p for p in points if p.name == name)


def nearest(points, known):
    """Of the same name: several may share it."""
    same = [p for p in points if p.name == known.name]
    return min(same, key=lambda p: _apart(p, known))


def _apart(p, q):
    return np.abs(np.array(p.overlaps) - np.array(q.overlaps)).max()


def spectrum(point):
    """All eigenvalues, each as often as it occurs."""
    return np.sort(np.repeat(point.eigenvalues, point.multiplicities))


@pytest.mark.parametrize("dim", [3, 10])
def test_the_search_on_the_exact_risk_finds_the_shipped_points(dim):
    """Differences of step 1e-3 instead of a complex step: 1e-6 of a third derivative."""
    task = exact_twin(dim, 4)
    head = at.Erf(0.4)
    found = planted_points(task, head, 0.4, 2, 0, "this test")
    for known in at.stationary_points(task, head):
        p = nearest(found, known)
        assert _apart(p, known) < 1e-7
        assert p.risk.value == pytest.approx(known.risk.value, rel=1e-9)
        assert p.kind == known.kind and p.errors is None
        assert np.abs(spectrum(p) - spectrum(known)).max() < 1e-4
        assert [p.count(s) for s in (-1, 0, 1)] == [known.count(s) for s in (-1, 0, 1)]


@pytest.mark.slow
def test_oblique_teachers_have_points_now():
    """Each is one: the tangent gradient vanishes, by differences of the risk itself."""
    value = np.array([0.6, 0.8, *np.zeros(8)])
    task = at.SingleLocation(10, 4, signal=2.0, key=np.eye(10)[0], value=value)
    head = at.Softmax(1.0)
    points = at.stationary_points(task, head, starts=2)
    best = points[0]
    assert (
        best.kind == "minimum"
        and best.risk.value < at.risk(task, head, Overlaps.oracle(0.6)).value
    )
    on = Spheres(surface_of(task, head, 1.0, "this test"), 10)
    rng = np.random.default_rng(0)
    X = _placed(on, best.gram)
    for _ in range(3):
        step = 1e-4 * rng.standard_normal(X.size)
        ends = [at.risk(task, head, on.gram(on.moved(X, s * step))).value for s in (1, -1)]
        assert abs(ends[0] - ends[1]) < 1e-9
        assert min(ends) >= best.risk.value - 1e-12


def _placed(on, gram):
    """X (2, D) with these inner products beside the teachers."""
    T = on.teachers
    inner = np.linalg.solve(T[:, :2] @ T[:, :2].T, gram[2:, :2]).T @ T
    rest = gram[:2, :2] - inner @ inner.T
    values, vectors = np.linalg.eigh(rest)
    inner[:, 2:4] += vectors * np.sqrt(np.maximum(values, 0))
    return inner / np.linalg.norm(inner, axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("head", [at.Erf(0.4), at.Softmax(1.0)])
def test_points_of_an_own_task_are_those_of_the_exact_risk(head):
    known = at.stationary_points(exact_twin(10, 4), head)
    found = at.stationary_points(Twin(10, 4), head, starts=1)
    for q in known:
        p = nearest(found, q)
        assert _apart(p, q) <= SURE * p.away + 1e-6
        assert abs(p.risk.value - q.risk.value) <= SURE * p.risk.error + 1e-5
        assert p.kind == q.kind
        off = np.abs(spectrum(p) - spectrum(q))
        errors = np.repeat(p.errors, p.multiplicities)[
            np.argsort(np.repeat(p.eigenvalues, p.multiplicities), kind="stable")
        ]
        assert (off <= SURE * errors + 1e-4).all()


@pytest.mark.slow
def test_the_hessian_of_moments_is_that_of_the_exact_route():
    """At a place that is no stationary point, entry by entry."""
    head = at.Softmax(1.0)
    exact = Spheres(surface_of(exact_twin(10, 4), head, 1.0, "this test"), 10)
    own = Spheres(surface_of(Twin(10, 4), head, 1.0, "this test"), 10)
    X = _placed(exact, head_gram(SOMEWHERE, np.eye(2)))
    basis, turns = exact.basis(X)
    assert turns == 1
    truth = exact.hessians(X, basis)[0]
    found = own.hessians(X, basis)[0]
    # the same differences of two gradients that agree to 1e-14
    assert np.abs(found - truth).max() <= 1e-9


@pytest.mark.slow
def test_a_task_of_the_user_has_points_and_a_landscape():
    task = SignLocation(dim=8, length=3)
    head = at.Erf(0.4)
    found = at.risk_landscape(task, head, points=9, starts=1)
    assert by_name(found.points, "oracle").kind == "minimum"
    assert by_name(found.points, "swapped").kind in ("minimum", "saddle")
    inside = np.isfinite(found.risk)
    assert inside.all() and (found.error[inside] > 0).all()
    # another route at two corners and in the middle
    for i, j in ((0, 0), (8, 8), (4, 4)):
        o = Overlaps(found.axis[j], 0.0, 0.0, found.axis[i], 0.0)
        drawn = at.risk(task, head, o, method="monte-carlo", samples=100_000)
        slack = SURE * np.hypot(found.error[i, j], drawn.error)
        assert abs(found.risk[i, j] - drawn.value) <= slack
    panel = found.figure().panels[0]
    assert panel.marks[0].z.shape == (9, 9)
    # points that are projected onto one place share a mark
    assert sum(len(mark.x) for mark in panel.marks[1:]) == len(found.points)


def test_a_landscape_of_a_shipped_task_is_its_risk():
    task = at.SingleLocation(20, 5, signal=2.0)
    held = Overlaps(0.0, 0.3, 0.0, 0.0, 0.2)
    found = at.risk_landscape(task, at.Erf(0.3), "kappa", "nu", held, points=9, starts=None)
    assert found.points == () and found.method == "closed form"
    possible = np.isfinite(found.risk)
    assert 0 < possible.sum() < possible.size
    i, j = np.argwhere(possible)[7]
    o = held._replace(kappa=found.axis[j], nu=found.axis[i])
    assert found.risk[i, j] == pytest.approx(at.risk(task, at.Erf(0.3), o).value, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": "delta"}, "x of risk_landscape must be one of kappa"),
        ({"x": "nu"}, "y of risk_landscape must be another overlap than x"),
        ({"points": 1}, "points of risk_landscape"),
        (
            {"overlaps": Overlaps(0.0, 0.9, 0.9, 0.0, -1.0), "x": "kappa"},
            "overlaps of risk_landscape must be those of some unit vectors",
        ),
    ],
)
def test_bad_input_is_one_sentence(change, words):
    task = at.SingleLocation(20, 5)
    with pytest.raises(at.AttnscopeError, match=words):
        at.risk_landscape(task, at.Erf(0.3), **change)


def test_what_has_no_key_and_value_is_refused():
    with pytest.raises(
        at.AttnscopeError, match="task of stationary_points must be a planted"
    ):
        at.stationary_points(at.SparseTokenClassification(30, 5, strength=1.0), at.Erf(0.1))
    with pytest.raises(at.AttnscopeError, match="predictor of stationary_points must be"):
        at.stationary_points(SignLocation(dim=8, length=3), "softmax")


def test_points_projected_onto_one_place_share_a_mark_and_say_what_is_off_the_plane():
    """At theta = 0 the swapped minimum lies over the degenerate saddle, at another theta."""
    found = at.risk_landscape(at.SingleLocation(80, 5), at.Erf(0.3), points=5)
    figure = found.figure()
    (panel,) = figure.panels
    labels = [mark.label for mark in panel.marks[1:]]
    assert [label.count(",") for label in labels] == [0, 1]
    assert "swapped minimum" in labels[1] and "degenerate saddle" in labels[1]
    assert labels[0].startswith("oracle minimum") and "*" not in labels[0]
    assert labels[1].count("*") == 1 and "*, degenerate" in labels[1]
    assert panel.title.endswith("(* not on this plane)")
    assert not problems(figure)
    there = at.Overlaps(0.0, 1.0, float(found.points[1].overlaps.theta), 0.0, 0.0)
    other = at.risk_landscape(
        at.SingleLocation(80, 5), at.Erf(0.3), "eta", "theta", there, points=5
    )
    assert "swapped minimum" in " ".join(m.label for m in other.figure().panels[0].marks[1:])
