"""The dimension of tokens: known sets, exact neighbours, what is refused.

Known sets allow 5 stated errors (6e-7 each) at seeds fixed before looking.
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT
from scipy.spatial import cKDTree

import attnscope as at
from attnscope.estimators import intrinsic_dimension as module


def on_sphere(m, n, ambient, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, m + 1))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x @ np.linalg.qr(rng.standard_normal((ambient, m + 1)))[0].T


@pytest.mark.parametrize(("m", "ambient"), [(1, 10), (2, 40), (4, 40)])
def test_spheres(m, ambient):
    found = at.intrinsic_dimension(on_sphere(m, 1500, ambient, 21))
    assert abs(found.value - m) < 5 * found.error < 0.35 * m
    assert "sampled" in found.method


def test_the_stated_error_holds_its_spread():
    """Sixty circles: the spread of the estimates over the error is 1.35/1.5, within 5 standard
    errors of a standard deviation (46 %); and the error is of the order of the spread.
    """
    found = [at.intrinsic_dimension(on_sphere(1, 300, 2, seed)) for seed in range(60)]
    ratio = np.std([e.value for e in found]) / np.mean([e.error for e in found])
    assert 0.5 < ratio < 1.3


def test_neighbours_are_those_of_a_tree(monkeypatch):
    """Also far from 0, where the fast formula loses its digits, and in blocks."""
    monkeypatch.setattr(module, "BLOCK_DISTANCES", 1000)
    rng = np.random.default_rng(3)
    for away in (0.0, 1e5):
        x = rng.standard_normal((300, 4)) + away * np.array([1.0, -1.0, 0.0, 2.0])
        x = module._centre_and_scale(x)
        tree = cKDTree(x).query(x, k=3)[0][:, 1:]
        assert np.abs(module._two_nearest(x) / tree - 1).max() < EXACT
    clusters = np.repeat([[0.0], [1.0]], 100, axis=0) + 1e-9 * rng.standard_normal((200, 1))
    tree = cKDTree(clusters).query(clusters, k=3)[0][:, 1:]
    assert np.abs(module._two_nearest(clusters) / tree - 1).max() < EXACT


def test_many_tokens_are_thinned():
    x = on_sphere(2, 3000, 3, 5)
    few = at.intrinsic_dimension(x, most=500)
    assert abs(few.value - 2) < 5 * few.error
    assert few == at.intrinsic_dimension(x, most=500, seed=0)
    assert few.value != at.intrinsic_dimension(x, most=500, seed=1).value


def lattice(size, dimension=2):
    return np.stack(np.meshgrid(*[np.arange(size)] * dimension), axis=-1).reshape(
        -1, dimension
    )


@pytest.mark.parametrize(("size", "dimension"), [(10, 2), (40, 1), (7, 3), (30, 2)])
@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-6, 1e-3])
def test_lattices_are_refused(size, dimension, noise):
    """Also turned, with noise, and at a scale at which distances round."""
    rng = np.random.default_rng(size)
    x = 0.1 * (
        lattice(size, dimension) + noise * rng.standard_normal((size**dimension, dimension))
    )
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0][:dimension]
    for tokens in (x, x @ turn):
        with pytest.raises(at.AttnscopeError, match="must be a sample of a density"):
            at.intrinsic_dimension(
                tokens if noise == 0 or tokens is x else tokens[:, :dimension]
            )


def test_rounded_tokens_are_refused():
    x = np.random.default_rng(0).standard_normal((1000, 2))
    exact = at.intrinsic_dimension(x)
    with pytest.raises(
        at.AttnscopeError, match="equally far away; try tokens before they were"
    ):
        at.intrinsic_dimension(x.round(2))
    little = at.intrinsic_dimension(x.round(9))
    assert abs(little.value - exact.value) < exact.error / 100


@pytest.mark.parametrize("dimension", [1, 2, 3, 8])
def test_never_more_than_the_ambient_dimension(dimension):
    rng = np.random.default_rng(dimension)
    for n in (20, 25, 40, 200):
        found = at.intrinsic_dimension(rng.random((n, dimension)))
        assert found.value <= dimension
        assert dimension - found.value < 5 * found.error


CASES = {
    "few": (lambda: at.intrinsic_dimension(np.eye(19)), "at least 20 different ones, got 19"),
    "equal": (lambda: at.intrinsic_dimension(np.ones((50, 3))), "at least 20 different ones"),
    "grid": (
        lambda: at.intrinsic_dimension(np.eye(30)),
        "must be a sample of a density, got 30 of 30 whose two nearest neighbours are equally far",
    ),
    "nan": (lambda: at.intrinsic_dimension(np.full((30, 2), np.nan)), "tokens of .* finite"),
    "words": (lambda: at.intrinsic_dimension(["a"] * 30), "tokens of .* a real array"),
    "most": (lambda: at.intrinsic_dimension(np.eye(30), most=3), "most of .* >= 20"),
    "rounding": (
        lambda: at.intrinsic_dimension(np.append(np.arange(40.0), 1e-200)[:, None]),
        "apart by more than rounding",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_sentence(name):
    call, words = CASES[name]
    with pytest.raises(at.AttnscopeError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
