"""Positional or semantic attention: the series against 4-D rules, draws and differences; minima,
phases and basins against grids.

The one sampled test allows 5 standard errors (6e-7 each, four of them), with a fixed seed.
"""

import numpy as np
import pytest
from scipy.special import expit

import attnscope as at
from attnscope.theory.positional_semantic import table as tables
from attnscope.theory.positional_semantic.basins import sphere_velocity

POINTS = ((0.5, 0.5), (0.1, 0.9), (0.9, 0.2), (0.0, 1.0), (-0.6, -0.7))


def gauss_hermite_loss(nodes, e, m, w, c):
    """The loss by a product rule in four dimensions, from its definition."""
    x, weight = np.polynomial.hermite_e.hermegauss(nodes)
    weight = weight / weight.sum()
    u = x[:, None]
    v = x[None, :]
    target = (1 - w) * expit(u * (u - v)) + w * expit(2 * c * c)
    rest = np.sqrt(max(1 - m * m, 0))
    total = 0.0
    for i, first in enumerate(x):
        for j, second in enumerate(x):
            a = m * u + rest * first
            b = m * v + rest * second
            s = expit((e + a) * (2 * e + a - b))
            total += weight[i] * weight[j] * (weight @ (target - s) ** 2 @ weight)
    return 2 * total


def task(w=0.65, c=0.75, position=1.0, dim=50):
    return at.PositionalSemantic(dim, w, c, position)


def test_the_number_and_what_coarse_rules_make_of_it():
    found = at.positional_loss(task(), 0.5, 0.5)
    assert found.value == pytest.approx(0.0908265939, abs=5e-11)
    assert found.error < 1e-13
    known = {17: 0.0908327, 19: 0.0908303, 30: 0.0908262, 40: 0.0908265}
    for nodes, value in known.items():
        assert gauss_hermite_loss(nodes, 0.5, 0.5, 0.65, 0.75) == pytest.approx(
            value, abs=5.1e-8
        )


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_an_80_node_rule_in_four_dimensions(point):
    e, m = point
    value = at.positional_loss(task(0.4, 1.3), e, m).value
    assert gauss_hermite_loss(80, e, m, 0.4, 1.3) == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("point", POINTS)
def test_a_36_node_rule_in_four_dimensions(point):
    """Its own error at these points is 1e-6 (36 against 80 nodes)."""
    e, m = point
    value = at.positional_loss(task(0.4, 1.3), e, m).value
    assert gauss_hermite_loss(36, e, m, 0.4, 1.3) == pytest.approx(value, abs=2e-6)


def test_the_mean_of_the_teacher_in_closed_form():
    for position in (0.2, 1.0, 3.5):
        mean = tables.semantic_table(position).mean
        assert mean == pytest.approx(1 - 0.5**1.5, abs=2e-15)


@pytest.mark.parametrize("position", [1.0, 2.5])
def test_losses_of_drawn_tokens(position):
    it = task(0.3, 0.9, position)
    batch = it.sample(60_000, seed=1)
    rng = np.random.default_rng(2)
    for _ in range(2):
        k = it.place * rng.normal() + it.key * rng.normal() + rng.normal(size=50) / 7
        k /= np.linalg.norm(k)
        losses = ((batch.target - it.student_weights(k, batch.tokens)) ** 2).sum(1)
        exact = at.positional_loss(it, *it.overlaps(k)).value
        error = losses.std() / np.sqrt(len(losses))
        assert abs(losses.mean() - exact) < 5 * error


def test_both_rows_have_one_law():
    batch = task().sample(40_000, seed=3)
    y = batch.target
    error = (y[:, 0] - y[:, 1]).std() / np.sqrt(len(y))
    assert abs((y[:, 0] - y[:, 1]).mean()) < 5 * error


@pytest.mark.parametrize("position", [0.5, 1.0, 3.0])
def test_derivatives_by_differences(position):
    """Fourth-order differences with steps of 1e-3 and 1e-2: errors 1e-10 and 1e-6."""
    it = task(0.55, 1.1, position)
    e = position * np.array([0.05, 0.3, 0.6, 0.8])
    m = np.array([0.7, 0.2, 0.6, 0.1])
    there = at.positional_gradient(it, e, m)

    def slope(function, x, h):
        return (
            8 * (function(x + h) - function(x - h))
            - function(x + 2 * h)
            + function(x - 2 * h)
        ) / (12 * h)

    h = 1e-3 * position
    loss = lambda e, m: at.positional_loss(it, e, m).value
    by_e = slope(lambda x: loss(x, m), e, h)
    by_m = slope(lambda x: loss(e, x), m, 1e-3)
    assert there.value == pytest.approx(loss(e, m), abs=1e-14)
    assert there.gradient[:, 0] == pytest.approx(by_e, abs=1e-9 / position)
    assert there.gradient[:, 1] == pytest.approx(by_m, abs=1e-9)
    first = lambda e, m: at.positional_gradient(it, e, m).gradient
    by_e = slope(lambda x: first(x, m), e, h)
    by_m = slope(lambda x: first(e, x), m, 1e-3)
    assert there.hessian[:, 0] == pytest.approx(by_e, abs=1e-8 / position**2)
    assert there.hessian[:, 1] == pytest.approx(by_m, abs=1e-8)


def test_the_error_of_a_short_series_is_never_too_small(monkeypatch):
    """Degrees 24 to 64 against 240, up to m = 1; and it is not idle: within a factor of 100."""
    e = np.array([0.0, 0.0, 0.05, 0.2])
    m = np.array([1.0, 0.99, 0.995, 0.97])
    exact = tables.values(tables.semantic_table(1.0), e, m)[0]
    for degree in (24, 48, 64):
        monkeypatch.setattr(tables, "SERIES_DEGREE", degree)
        short = tables.semantic_table.__wrapped__(1.0)
        away = np.abs(tables.values(short, e, m)[0] - exact)
        bound = short.rest * m ** (degree + 2)
        assert (away <= bound + 1e-14).all()
        assert away[0] > bound[0] / 100


def test_the_errors_of_derivatives_at_the_end_of_the_series(monkeypatch):
    """At m = 1 the series is slowest: degree 240 against 320."""
    e = np.array([0.0, 0.02, 0.1])
    m = np.sqrt(1 - e**2)
    found = tables.partials(tables.semantic_table(1.0), e, m)
    monkeypatch.setattr(tables, "SERIES_DEGREE", 320)
    more = tables.partials(tables.semantic_table.__wrapped__(1.0), e, m)
    away = np.abs(found.f - more.f)
    assert (away[1:3] <= found.tail[1] + 1e-13).all()
    assert (away[3:] <= found.tail[2] + 1e-11).all()


@pytest.mark.parametrize("position", [0.4, 1.0, 1.4, 2.0, 3.0])
def test_minima_against_a_grid(position):
    """No point of a fine grid is lower; each minimum is lower than a ring around it."""
    rng = np.random.default_rng(11)
    y = np.linspace(0, 1, 201)[:, None]
    e = position * y
    m = np.sqrt(1 - y**2) * np.linspace(0, 1, 101)
    around = np.linspace(0, 2 * np.pi, 181)
    for w, c in zip([0.2, 0.6, 0.97, *rng.random(3)], [2.0, 1.5, 0.76, *(2 * rng.random(3))]):
        it = task(w, c, position)
        found = at.positional_minima(it)
        assert found[0].loss.value <= at.positional_loss(it, e, m).value.min() + 1e-13
        for minimum in found:
            ring_y = minimum.e / position + 1e-3 * np.cos(around)
            ring_m = minimum.m + 1e-3 * np.sin(around)
            fits = ring_y**2 + ring_m**2 <= 1
            ring = at.positional_loss(it, position * ring_y[fits], ring_m[fits]).value
            assert (ring > minimum.loss.value).all()
            assert minimum.curvature > 0


def test_the_phases_are_those_of_the_lowest_minima():
    """Pairs (w, c) drawn where all three phases occur."""
    rng = np.random.default_rng(12)
    seen = set()
    for position in (0.5, 1.0, 2.0):
        w = np.sort(np.append(rng.random(5), [0.97, 0.985, 0.995]))
        c = np.sort(np.append(2.5 * rng.random(4), [0.74, 0.75, 0.76]))
        diagram = at.positional_phases(w, c, position)
        for i, mix in enumerate(w):
            for j, contrast in enumerate(c):
                minima = at.positional_minima(task(mix, contrast, position))
                kinds = {found.phase for found in minima}
                assert diagram.loss[i, j] == pytest.approx(minima[0].loss.value, abs=1e-11)
                assert diagram.names[diagram.phase[i, j]] == minima[0].phase
                assert diagram.semantic_stable[i, j] == ("semantic" in kinds)
                assert diagram.positional_stable[i, j] == ("positional" in kinds)
                seen.add(minima[0].phase)
    assert seen == {"semantic", "positional", "mixed"}


def test_basins_follow_the_flow():
    it = task(0.6, 1.0)
    minima = at.positional_minima(it)
    assert [found.phase for found in minima] == ["semantic", "positional"]
    # by plain small steps, another integrator
    e = np.array([0.05, 0.3, 0.7, 0.1])
    m = np.array([0.05, 0.05, 0.1, -0.6])
    y, z = e.copy(), m.copy()
    for _ in range(1000):
        step = sphere_velocity(it, y, z)
        y, z = y + 0.2 * step[0], z + 0.2 * step[1]
    expected = np.where(np.abs(z) > np.abs(y), 0, 1)
    assert at.positional_basins(it, e, m).tolist() == expected.tolist()
    assert set(expected) == {0, 1}
    assert at.positional_basins(it, -0.3, 0.05) == at.positional_basins(it, 0.3, -0.05) == 1


def test_a_start_on_an_axis_may_end_in_a_saddle():
    assert at.positional_basins(task(0.4, 0.5), 0.5, 0.0) == -1


REFUSED = {
    "mix of PositionalSemantic must be": lambda: at.PositionalSemantic(5, 1.5),
    "position of PositionalSemantic must be": lambda: at.PositionalSemantic(5, position=5.0),
    "place of PositionalSemantic must be perpendicular": lambda: at.PositionalSemantic(
        2, key=np.array([1.0, 0]), place=np.array([0.6, 0.8])
    ),
    r"\(e, m\) of positional_loss must be overlaps of a unit": lambda: at.positional_loss(
        task(), 0.9, 0.9
    ),
    "e and m of positional_gradient must be arrays that broadcast": (
        lambda: at.positional_gradient(task(), [0.1, 0.2], [0.1, 0.2, 0.3])
    ),
    "m of positional_loss must be finite": lambda: at.positional_loss(task(), 0.1, np.nan),
    "e of positional_loss must be a real array": lambda: at.positional_loss(task(), "a", 0),
    "task of positional_loss must be a PositionalSemantic": lambda: at.positional_loss(
        at.SingleLocation(5, 2), 0, 0
    ),
    "mix of positional_minima must be below 1": lambda: at.positional_minima(task(1.0)),
    "mix of positional_basins must be below 1": lambda: at.positional_basins(task(1.0), 0, 0),
    "mixes of positional_phases must be in": lambda: at.positional_phases([0.5, 1], [1.0]),
    "contrasts of positional_phases must be": lambda: at.positional_phases([0.5], "c"),
    "position of positional_phases must be": lambda: at.positional_phases([0.5], [1.0], 0),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_bad_input_gets_one_sentence(sentence):
    with pytest.raises(at.AttnscopeError, match=sentence):
        REFUSED[sentence]()


def test_the_diagrams_figure_names_its_kinds():
    """Every kind at a pair of its own; colours are names, not a scale."""
    found = at.positional_phases([0.3, 0.6, 0.9, 0.985], [0.5, 1.2, 0.755])
    heat = found.figure().panels[1].marks[0]
    assert heat.names == ("semantic", "positional", "both", "mixed alone")
    kinds = [heat.names[int(z)] for z in (heat.z[0, 0], heat.z[2, 1], heat.z[1, 1])]
    assert kinds == ["semantic", "positional", "both"]
    for w, row in zip(found.mixes, heat.z):
        for c, z in zip(found.contrasts, row):
            minima = {x.phase for x in at.positional_minima(at.PositionalSemantic(9, w, c))}
            named = {0: {"semantic"}, 1: {"positional"}, 2: {"semantic", "positional"}}
            assert minima - {"mixed"} == named.get(int(z), set())
