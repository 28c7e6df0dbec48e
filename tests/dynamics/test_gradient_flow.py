"""Gradient flow against the vector field in R^d, against training with a step size that goes to
zero, and the rates of both limits.

Stochastic comparisons: the SGD test takes 5 standard errors for 5 means and 30 % for 5 spreads of
4000 runs (their standard error is below 2 %): false alarm below 1e-5 at the fixed seed.
"""

import numpy as np
import pytest
from helpers.tolerances import FORMULA, LAST_DIGIT, ROOT_EPS, SIX_DIGITS, SOLVED
from scipy.integrate import solve_ivp

import attnscope as at
from attnscope.dynamics.gradient_flow import gradient_flow, velocity
from attnscope.errors import AttnscopeError

TASK = at.SingleLocation(30, 6, gamma=0.7, signal=2.0)
START = at.Overlaps(0.3, -0.2, 0.25, 0.4, 0.1)


def oblique_task(rng):
    key, value = rng.standard_normal((2, 7))
    value += key
    return at.SingleLocation(
        7,
        4,
        gamma=0.8,
        signal=1.5,
        key=key / np.linalg.norm(key),
        value=value / np.linalg.norm(value),
    )


def test_velocity_is_that_of_vectors_in_space():
    rng = np.random.default_rng(0)
    task = oblique_task(rng)
    k, v = (x / np.linalg.norm(x) for x in rng.standard_normal((2, 7)))
    o = at.Overlaps.of(task, k, v)
    R = np.array(at.risk_gradient(task, at.Erf(0.8), o))[:5]
    ks = task.key
    vs = task.value
    grad_k = R[0] * ks + R[1] * vs + R[4] * v
    grad_v = R[2] * ks + R[3] * vs + R[4] * k
    dk = -(grad_k - (grad_k @ k) * k)
    dv = -(grad_v - (grad_v @ v) * v)
    want = [dk @ ks, dk @ vs, dv @ ks, dv @ vs, dk @ v + k @ dv]
    got = velocity(np.array(o)[:, None], R[:, None], task.alignment)[:, 0]
    np.testing.assert_allclose(got, want, rtol=0, atol=FORMULA)


@pytest.mark.parametrize(
    "predictor", [at.Erf(0.5), at.LinearAttention(0.3, offset=0.2)], ids=repr
)
def test_flow_is_that_of_the_vectors_with_a_numerical_gradient(predictor):
    """The same flow in R^7, the gradient by central differences of the risk, another solver."""
    rng = np.random.default_rng(1)
    task = oblique_task(rng)
    k, v = (x / np.linalg.norm(x) for x in rng.standard_normal((2, 7)))
    dots = lambda x: (
        x[:7] @ task.key,
        x[:7] @ task.value,
        x[7:] @ task.key,
        x[7:] @ task.value,
        x[:7] @ x[7:],
    )
    steps = np.eye(14) * 1e-5

    def field(_, x):
        unit = np.concatenate([x[:7] / np.linalg.norm(x[:7]), x[7:] / np.linalg.norm(x[7:])])
        moved = np.concatenate([unit + steps, unit - steps])
        moved[:, :7] /= np.linalg.norm(moved[:, :7], axis=1, keepdims=True)
        moved[:, 7:] /= np.linalg.norm(moved[:, 7:], axis=1, keepdims=True)
        values = at.risk(
            task, predictor, at.Overlaps(*np.array([dots(y) for y in moved]).T)
        ).value
        return -(values[:14] - values[14:]) / 2e-5

    found = solve_ivp(
        field, (0, 3.0), np.concatenate([k, v]), method="RK45", rtol=ROOT_EPS, atol=SOLVED
    ).y[:, -1]
    flow = gradient_flow(task, predictor, (k, v), [3.0])
    np.testing.assert_allclose(flow.log[:, 0, 0], dots(found), atol=SIX_DIGITS)


def test_descent_is_off_by_the_step_size():
    """Halving the step halves the error: slope 1, to 5 %."""
    T = 4.0
    predictor = at.Erf(0.5)
    flow = gradient_flow(TASK, predictor, START, [T]).log[:, 0, 0]
    errors = []
    for alpha in (0.01, 0.005, 0.0025):
        run = at.train(TASK, predictor, START, 1, round(T / alpha), alpha, round(T / alpha))
        errors.append(np.abs(run.log[:, 0, -1] - flow).max())
    slopes = np.diff(np.log(errors)) / np.log(0.5)
    np.testing.assert_allclose(slopes, 1.0, atol=0.05)
    assert errors[-1] < 5e-3


def test_softmax_descent_tends_to_the_flow():
    T = 1.0
    predictor = at.Softmax(1.0)
    flow = gradient_flow(TASK, predictor, START, [T], tolerance=1e-7).log[:, 0, 0]
    errors = [
        np.abs(at.train(TASK, predictor, START, 1, n, T / n, n).log[:, 0, -1] - flow).max()
        for n in (10, 20)
    ]
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.15)


def sgd(alpha, T, runs, batch):
    n = round(T / alpha)
    return at.train(
        TASK, at.Erf(0.5), START, runs, n, alpha, n, seed=3, batch_size=batch
    ).log[:, :, -1]


@pytest.mark.slow
def test_sgd_scatters_by_the_root_of_the_step_and_is_off_by_the_step():
    """Four times smaller steps: spread halved, mean error (above its noise) divided by four."""
    T, runs = 2.0, 4000
    flow = gradient_flow(TASK, at.Erf(0.5), START, [T]).log[:, 0, 0]
    large = sgd(0.004, T, runs, 4)
    small = sgd(0.001, T, runs, 4)
    np.testing.assert_allclose(large.std(1) / small.std(1), 2.0, rtol=0.3)
    bias = [x.mean(1) - flow for x in (large, small)]
    noise = np.hypot(large.std(1) / 4, small.std(1)) / np.sqrt(runs)
    assert (np.abs(bias[0] / 4 - bias[1]) < 5 * noise + 0.25 * np.abs(bias[0]) / 4).all()
    assert np.abs(bias[0]).max() > 10 * noise.max()  # there is a bias to speak of


@pytest.mark.slow  # the limit itself is tested above
def test_any_batch_size_has_the_same_limit():
    """Two batch sizes, tiny steps: both means near the flow, the larger batch scatters less."""
    T = 1.0
    flow = gradient_flow(TASK, at.Erf(0.5), START, [T]).log[:, 0, 0]
    one = sgd(2e-4, T, 400, 1)
    many = sgd(2e-4, T, 400, 16)
    assert (
        np.abs(one.mean(1) - flow).max() < 0.02 and np.abs(many.mean(1) - flow).max() < 0.005
    )
    np.testing.assert_allclose(one.std(1) / many.std(1), 4.0, rtol=0.3)


def test_risk_falls_along_the_flow_and_runs_are_independent():
    task = at.SingleLocation(20, 5, noise=0.3)
    flow = gradient_flow(task, at.Erf(0.3), "sphere", np.linspace(0, 4, 21), runs=2, seed=2)
    assert flow.log.shape == (5, 2, 21) and (np.diff(flow.risk, axis=1) < 1e-9).all()
    np.testing.assert_allclose(flow.risk - flow.excess, 0.09, atol=LAST_DIGIT)
    alone = gradient_flow(task, at.Erf(0.3), "sphere", np.linspace(0, 4, 21), runs=1, seed=2)
    assert np.array_equal(alone.log[:, 0], flow.log[:, 0])
    np.testing.assert_allclose(
        flow.log[:, :, 0],
        at.train(task, at.Erf(0.3), runs=2, steps=1, log_every=1, seed=2).log[:, :, 0],
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"times": [1.0, 1.0]}, "times of gradient_flow must be increasing"),
        ({"times": [-1.0, 1.0]}, "times of gradient_flow"),
        (
            {"predictor": at.Erf(at.InverseTime(1.0, 1.0))},
            "inverse_temperature of gradient_flow",
        ),
        ({"predictor": at.MultiHead(at.Erf(1.0))}, "predictor of gradient_flow"),
        ({"tolerance": 0.5}, "tolerance of gradient_flow"),
        ({"start": "nowhere"}, "start of"),
        ({"task": None}, "task of gradient_flow"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, words):
    given = {"task": TASK, "predictor": at.Erf(0.5), "start": START, "times": [0.0, 1.0]}
    with pytest.raises(AttnscopeError, match=words):
        gradient_flow(**{**given, **arguments})


def test_a_start_on_the_border_stays_possible():
    """k = v: the Gram matrix keeps an eigenvalue 0, which the solver's error made -3e-8
    (stress tests, seed 601)."""
    task = at.SingleLocation(4, 17, gamma=0.85, signal=3.0)
    k = np.array([0.0, 0.0, 1.0, 0.0])
    start = 0.1 * task.key - 0.8 * task.value + 0.2 * k
    k = start / np.linalg.norm(start)
    flow = at.gradient_flow(task, at.Erf(1.1), (k, k), np.linspace(0, 0.11, 4))
    kappa, eta, theta, nu, rho = flow.log[:, 0]
    for i in range(4):
        gram = [
            [1, rho[i], kappa[i], eta[i]],
            [rho[i], 1, theta[i], nu[i]],
            [kappa[i], theta[i], 1, 0],
            [eta[i], nu[i], 0, 1],
        ]
        assert np.linalg.eigvalsh(gram)[0] > -1e-12
