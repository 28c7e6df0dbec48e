"""Population descent of several heads: against descent in five overlaps on the same nodes, against
differences of the risk in the vectors themselves, and its bits in pieces.
"""

import numpy as np
import pytest
from helpers.tolerances import FIVE_DIGITS, SOLVED

import attnscope as at
from attnscope.dynamics.engines.population_exact import PopulationExact
from attnscope.dynamics.engines.population_gram import PopulationGram
from attnscope.theory.nodes.node_gradient import node_gradient
from attnscope.theory.nodes.node_risk import reader_of
from attnscope.theory.nodes.node_routes import GRADIENT_NODES


class Twin(at.Planted):
    """Single-location regression of which nothing exact is known."""

    teachers = ("key", "value")

    def latents(self):
        return np.arange(self.length), np.full(self.length, 1 / self.length)

    def means(self, location):
        out = np.zeros((len(location), self.length, 2))
        out[np.arange(len(location)), location, 0] = 1.5
        return out

    def label(self, fields, location, rng):
        return fields[np.arange(len(fields)), location, 1]


class TwoValues(Twin):
    """Three teachers: the label is the product of what two values say."""

    teachers = ("key", "value", "other")

    def means(self, location):
        out = np.zeros((len(location), self.length, 3))
        out[np.arange(len(location)), location, 0] = 1.5
        return out

    def label(self, fields, location, rng):
        own = fields[np.arange(len(fields)), location]
        return own[:, 1] + 0.5 * own[:, 2] ** 2


TWIN = Twin(8, 3)  # keeps its nodes and its compiled gradient


def unit_vectors(count, teachers, seed):
    x = np.random.default_rng(seed).standard_normal((count + teachers, count + teachers))
    x[count:] = np.eye(count + teachers)[:teachers]
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.slow
def test_one_head_follows_the_five_overlaps():
    task = TWIN
    head = at.Softmax(1.2)
    o = np.array([[0.5, -0.2], [0.1, 0.3], [0.2, 0.4], [0.3, 0.1], [-0.1, 0.2]])
    five = PopulationExact(task, head, 0.05)
    lam = np.full(3, 1.2)
    expected = five.overlaps(five.advance(five.init(o), lam))
    kap, eta, the, nu, rho = o
    G = np.tile(np.eye(4), (2, 1, 1))
    for i, j, x in ((0, 1, rho), (0, 2, kap), (0, 3, eta), (1, 2, the), (1, 3, nu)):
        G[:, i, j] = x
        G[:, j, i] = x
    ours = PopulationGram(task, at.MultiHead(head, 1), 0.05)
    moved = ours.gram(ours.advance(ours.start(G), lam))
    got = moved[:, [0, 0, 1, 1, 0], [2, 3, 2, 3, 1]].T
    np.testing.assert_allclose(got, expected, rtol=0, atol=SOLVED)


@pytest.mark.slow  # each compiles a gradient and asks it 56 times
@pytest.mark.parametrize("constraint", ["sphere", "free"])
def test_a_step_is_down_the_gradient_of_the_vectors(constraint):
    """Three teachers, two heads: differences of the risk on the same nodes, coordinate by
    coordinate.
    """
    task = TwoValues(12, 3)
    predictor = at.MultiHead(at.Erf(0.8), 2)
    x = unit_vectors(4, 3, 1)
    value = node_gradient(task, reader_of(task, predictor), GRADIENT_NODES, 0, "test")
    h = 1e-4
    slope = np.zeros((4, 7))
    for a, j in np.ndindex(4, 7):
        pair = []
        for sign in (1, -1):
            y = x.copy()
            y[a, j] += sign * h
            pair.append(value(y @ y.T, 0.8).value)
        slope[a, j] = (pair[0] - pair[1]) / (2 * h)
    alpha = 0.1
    new = x.copy()
    if constraint == "sphere":
        slope -= (slope * x[:4]).sum(1, keepdims=True) * x[:4]
    new[:4] -= alpha * slope
    if constraint == "sphere":
        new[:4] /= np.linalg.norm(new[:4], axis=1, keepdims=True)
    engine = PopulationGram(task, predictor, alpha, constraint)
    got = engine.advance(engine.start((x @ x.T)[None]), np.full(1, 0.8))["gram"][0]
    assert np.abs(new @ new.T - x @ x.T).max() > 1e-2
    np.testing.assert_allclose(got, new @ new.T, rtol=0, atol=FIVE_DIGITS)


def test_train_descends_and_extends_bit_for_bit():
    task = TwoValues(12, 3)
    options = {"runs": 2, "log_every": 2, "step_size": 0.2, "progress": False}
    run = at.train(task, at.Softmax(1.0), steps=4, **options)  # one head, three teachers
    assert isinstance(run, at.HeadTrajectory)
    assert (np.diff(run.excess, axis=1) < 0).all()
    longer = at.train(task, at.Softmax(1.0), steps=8, **options)
    np.testing.assert_array_equal(run.extend(4, progress=False).gram, longer.gram)
    alone = at.train(task, at.Softmax(1.0), steps=4, **(options | {"runs": 1}))
    np.testing.assert_array_equal(alone.gram, run.gram[:1])


@pytest.mark.slow
def test_a_run_that_is_not_finite_stays_so_and_alone():
    engine = PopulationGram(TWIN, at.MultiHead(at.Softmax(1.2), 1), 0.05)
    x = unit_vectors(2, 2, 2)
    state = engine.start(np.repeat((x @ x.T)[None], 2, axis=0))
    state["gram"][0, 0, 1] = np.nan
    got = engine.advance(state, np.full(2, 1.2))["gram"]
    assert np.isnan(got[0]).any() and np.isfinite(got[1]).all()


def test_bad_input_gets_one_sentence():
    head = at.MultiHead(at.Softmax(1.0), 1)
    with pytest.raises(
        at.AttnscopeError, match="constraint of PopulationGram must be 'sphere'"
    ):
        PopulationGram(Twin(8, 3), head, 0.1, "cube")
    with pytest.raises(at.AttnscopeError, match="gram of PopulationGram must be of shape"):
        PopulationGram(Twin(8, 3), head, 0.1).start(np.eye(3)[None])
