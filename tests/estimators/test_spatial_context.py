"""Spatial context of maps of tiles: neighbours by hand, regressions by another route, errors, bad
input.

Stochastic: one seed, chosen before looking; each comparison allows 5 stated errors (6e-7).
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT, SOLVED
from stress.references import tiles as reference

import attnscope as at
from attnscope.estimators.tiles import grid as tile_grid
from attnscope.estimators.tiles.grid import log_determinant, tiles_of

RNG = np.random.default_rng(20)
Y = RNG.standard_normal(400)
X = RNG.standard_normal((400, 3))
PLACES = np.indices((20, 20)).reshape(2, -1).T
PLACES_42 = np.indices((6, 7)).reshape(2, -1).T


@pytest.mark.parametrize("rook", [False, True])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("radius", [1, 2])
def test_neighbours_are_those_of_all_pairs(rook, wrap, radius):
    word = "rook" if rook else "queen"
    found = tiles_of((6, 7), 42, radius, word, wrap, "a test")
    pairs = reference.mean_matrix(PLACES_42, radius, rook, (6, 7) if wrap else ())
    np.testing.assert_allclose(found.mean.toarray(), pairs, atol=EXACT)
    assert found.eigenvalues is not None
    np.testing.assert_allclose(
        np.sort(found.eigenvalues), np.sort(np.linalg.eigvals(pairs).real), atol=SOLVED
    )


def test_tiles_anywhere_have_the_same_neighbours():
    order = RNG.permutation(42)
    whole = tiles_of((6, 7), 42, 1, "queen", False, "a test").mean.toarray()
    moved = tiles_of(PLACES_42[order] - 1000, 42, 1, "queen", False, "a test")
    np.testing.assert_array_equal(moved.mean.toarray(), whole[np.ix_(order, order)])


def test_determinant_by_eigenvalues_and_by_factors(monkeypatch):
    tiles = tiles_of((20, 20), 400, 2, "queen", False, "a test")
    value, low = log_determinant([tiles, tiles])
    dense = np.eye(400) - 0.7 * tiles.mean.toarray()
    assert value(0.7) == pytest.approx(2 * np.linalg.slogdet(dense)[1], rel=SOLVED)
    monkeypatch.setattr(tile_grid, "MAX_DENSE_TILES", 1)
    again = tiles_of((20, 20), 400, 2, "queen", False, "a test")
    factored, other = log_determinant([again, again])
    assert again.eigenvalues is None
    assert other == pytest.approx(low, rel=SOLVED)
    for rho in (-1.5, 0.2, 0.7, 0.99):
        assert factored(rho) == pytest.approx(value(rho), rel=SOLVED)


def test_one_map_twice_is_two_maps():
    """Twice the tiles, the same regressions."""
    once = at.spatial_context(Y, X, (20, 20))
    twice = at.spatial_context([Y, Y], [X, X], [PLACES, PLACES])
    stacked = at.spatial_context(np.stack([Y, Y]), np.stack([X, X]), (20, 20))
    for name, value in once.fitted.items():
        assert twice.fitted[name] == pytest.approx(value, abs=EXACT)
        assert stacked.fitted[name] == pytest.approx(value, abs=EXACT)
    assert twice.rho.value == pytest.approx(once.rho.value, abs=1e-6)
    assert twice.tiles == 800


def test_constant_and_repeated_features_change_nothing():
    plain = at.spatial_context(Y, X, (20, 20))
    more = np.column_stack([X, np.full(400, 0.1), X @ [1.0, 2.0, 3.0]])
    again = at.spatial_context(Y, more, (20, 20))
    for a, b in zip(plain[:6], again[:6]):
        assert b.value == pytest.approx(a.value, abs=1e-7)
        assert b.error == pytest.approx(a.error, rel=1e-4)


def test_a_gain_of_zero_has_an_error_that_holds_it():
    found = at.spatial_context(Y, X, (20, 20))
    for gain in (found.baseline, *found.gains.values(), found.rho, found.rho_residuals):
        assert 0 < gain.error < 0.3
        assert abs(gain.value) < 5 * gain.error


def test_attention_of_an_estimator_on_tiles():
    """Overlapping tiles: neighbours' features explain the attention, by more than 5 errors."""
    tiles = RNG.standard_normal((40, 64, 2))
    tiles[np.arange(40), RNG.integers(64, size=40), 0] += 6
    grid = tiles.reshape(40, 8, 8, 2)
    seen = grid + np.roll(grid, 1, 1) + np.roll(grid, -1, 1)
    bags = seen.reshape(40, 64, 2)
    labels = bags[np.arange(40), bags[:, :, 0].argmax(axis=1), 1]
    model = at.SingleLocationRegressor(random_state=0).fit(bags, labels)
    scores = np.log(np.maximum(model.attention(bags), 1e-200))
    found = at.spatial_context(scores, tiles, (8, 8), contiguity="rook", wrap=True)
    assert found.features.value > 5 * found.features.error
    assert found.features.method == "least squares on 2560 tiles, error from 40 blocks"


CASES = {
    "pixels": ({"grid": PLACES * 256}, "of tiles that have neighbours, got none among 400"),
    "halves": ({"grid": PLACES + 0.5}, "no whole numbers; try positions in pixels"),
    "rows": ({"grid": (20, 21)}, r"rows \* columns = 400"),
    "no grid": ({"grid": None}, "grid of spatial_context must be"),
    "repeated": ({"grid": np.vstack([PLACES[:1], PLACES[:-1]])}, "no two are the same"),
    "radius": ({"radius": 0}, "radius of spatial_context must be an integer >= 1"),
    "too wide": ({"radius": 12}, "less than half of a map of 400 tiles"),
    "explained": ({"scores": X[:, 0]}, "nothing is left for neighbours to explain"),
    "constant": ({"scores": np.full(400, 0.1)}, "must be not all the same"),
    "maps": ({"scores": [Y, Y]}, "features of spatial_context must be one for each of 2"),
    "many": ({"features": RNG.standard_normal((400, 250))}, "principal components"),
    "none": ({"scores": None}, r"an array \(n,\) or a list of arrays"),
    "word": ({"contiguity": "bishop"}, "contiguity of spatial_context must be one of"),
    "wrap": ({"wrap": 1}, "wrap of spatial_context must be True or False"),
    "torus": ({"wrap": True, "grid": PLACES}, "where wrap=True"),
    "small": ({"scores": Y[:16], "features": X[:16], "grid": (4, 4)}, "at least 8 blocks"),
    "nan": ({"scores": np.full(400, np.nan)}, "scores of spatial_context must be finite"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_sentence(name):
    wrong, sentence = CASES[name]
    with pytest.raises(at.AttnscopeError, match=sentence):
        at.spatial_context(**({"scores": Y, "features": X, "grid": (20, 20)} | wrong))


def test_it_prints_a_table():
    lines = str(at.spatial_context(Y, X, (20, 20))).splitlines()
    assert lines[0] == "400 tiles, 7.4 neighbours each" and len(lines) == 7
