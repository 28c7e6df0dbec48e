"""Stationary points against vectors in R^D differentiated by JAX, closed forms,
limits and the basin rule.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.tolerances import FIVE_DIGITS, INTEGRAL, SIX_DIGITS, SOLVED, THREE_DIGITS

import attnscope as at
from attnscope.numerics.border.x64 import x64
from attnscope.theory.optima.landscape import swapped_overlaps

TASK = at.SingleLocation(400, 10)


D = 6  # ambient dimension of the vectors below
SMALL = at.SingleLocation(D, 5, signal=4.0)


@functools.cache
def compiled(task, kind):
    """Gradient and Hessian of R(k/|k|, v/|v|) in the 2D coordinates of (k, v), by JAX;
    one compilation for all points.
    """
    f = at.risk_function(task, kind(0.1))

    def value(z, lam):
        a, b = z[:D] / jnp.linalg.norm(z[:D]), z[D:] / jnp.linalg.norm(z[D:])
        return f(at.Overlaps(a[0], a[1], b[0], b[1], a @ b), lam)

    return jax.jit(lambda z, lam: (jax.grad(value)(z, lam), jax.hessian(value)(z, lam)))


def ambient_spectrum(task, predictor, o):
    """Norm of the tangent gradient and eigenvalues of the Hessian on the tangent space,
    at vectors in R^D with overlaps o.
    """
    k = np.zeros(D)
    v = np.zeros(D)
    k[:3] = o.kappa, o.eta, np.sqrt(max(0.0, 1 - o.kappa**2 - o.eta**2))
    v[:2] = o.theta, o.nu
    v[3] = np.sqrt(max(0.0, 1 - o.theta**2 - o.nu**2))
    with x64():
        gradient, H = map(
            np.array,
            compiled(task, type(predictor))(
                jnp.asarray(np.concatenate([k, v])),
                jnp.asarray(predictor.inverse_temperature),
            ),
        )
    normals = np.zeros((2 * D, 2))
    normals[:D, 0], normals[D:, 1] = k, v
    basis = np.linalg.svd(normals.T)[2][2:].T
    return np.linalg.norm(basis.T @ gradient), np.linalg.eigvalsh(basis.T @ H @ basis)


@pytest.mark.parametrize(
    "lam", [*(pytest.param(lam, marks=pytest.mark.slow) for lam in (0.05, 0.1)), 1.5]
)
def test_spectrum_equals_ambient_hessian(lam):
    """In R^6: 10 tangent directions; the pair outside the span has multiplicity 6 - 4."""
    points = at.stationary_points(SMALL, at.Erf(lam))
    assert {p.name for p in points} == {"oracle", "swapped", "degenerate"}
    for p in points:
        gradient, spectrum = ambient_spectrum(SMALL, at.Erf(lam), p.overlaps)
        assert gradient < 1e-12
        ours = np.sort(np.repeat(p.eigenvalues, p.multiplicities))
        np.testing.assert_allclose(ours, spectrum, atol=SOLVED * np.abs(spectrum).max())
        assert p.count(-1) + p.count(0) + p.count(1) == 10


def test_kinds_and_numbers_at_the_paper_setting():
    by_name = {p.name: p for p in at.stationary_points(TASK, at.Erf(0.1))}
    assert by_name["oracle"].kind == "minimum"
    assert by_name["oracle"].count(1) == 798
    assert by_name["swapped"].kind == "minimum"
    assert by_name["swapped"].count(0) == 397  # rotations of the free part of v
    assert by_name["swapped"].overlaps.theta == pytest.approx(0.630, abs=5e-4)
    assert by_name["degenerate"].kind == "saddle"
    assert by_name["degenerate"].count(-1) == 2
    growth = -by_name["degenerate"].eigenvalues[:2]
    np.testing.assert_allclose(growth, [0.7715, 0.7668], atol=5e-5)
    assert {p.name: p.kind for p in at.stationary_points(TASK, at.Erf(0.9))}[
        "oracle"
    ] == "saddle"


def test_swapped_beats_oracle_at_small_inverse_temperature():
    for lam, swapped, oracle in ((0.05, 0.0499, 0.0793), (0.02, 0.2365, 0.2422)):
        risks = {p.name: p.risk.value for p in at.stationary_points(TASK, at.Erf(lam))}
        assert (round(risks["swapped"], 4), round(risks["oracle"], 4)) == (swapped, oracle)
        assert at.stationary_points(TASK, at.Erf(lam))[0].name == "swapped"


def test_critical_inverse_temperature_and_its_limit():
    assert round(at.critical_inverse_temperature(at.SingleLocation(50, 10)), 3) == 1.107
    for length in (3, 10, 100):
        assert at.critical_inverse_temperature(
            at.SingleLocation(10**8, length)
        ) == pytest.approx(3**0.5 / 2, abs=FIVE_DIGITS)
    lam = at.critical_inverse_temperature(TASK)
    kinds = [
        {p.name: p.kind for p in at.stationary_points(TASK, at.Erf(lam * x))}["oracle"]
        for x in (0.999, 1.001)
    ]
    assert kinds == ["minimum", "saddle"]


@pytest.mark.parametrize(
    "predictor",
    [
        pytest.param(at.Softmax(2.0), marks=pytest.mark.slow),
        at.LinearAttention(0.1),
        at.Componentwise(jnp.tanh, 0.3),
    ],
)
def test_other_predictors_have_stationary_points(predictor):
    """The oracle is critical for every predictor; each point reported is critical and of the kind
    JAX says where there is a twin.
    """
    points = at.stationary_points(SMALL, predictor)
    assert "oracle" in {p.name for p in points}
    for p in points:
        if type(predictor) is not at.Componentwise and abs(p.overlaps.rho) < 1e-9:
            gradient, spectrum = ambient_spectrum(SMALL, predictor, p.overlaps)
            assert gradient < 1e-7
            assert (spectrum < -1e-6 * np.abs(spectrum).max()).any() == (p.kind != "minimum")


def test_swapped_theta_minimises_the_risk():
    for lam in (0.03, 0.1, 0.5):
        theta = swapped_overlaps(TASK, lam).theta
        grid = np.linspace(-1, 1, 4001)
        values = at.risk(TASK, at.Erf(lam), at.Overlaps(0.0, 1.0, grid, 0.0, 0.0)).value
        assert grid[np.argmin(values)] == pytest.approx(theta, abs=5e-4)


def test_basin_prediction_on_its_own_axes():
    oracle_like = at.Overlaps(0.05, 0.001, 0.001, 0.05, 0.0)
    swapped_like = at.Overlaps(0.001, 0.05, 0.05, 0.001, 0.0)
    assert at.basin_prediction(TASK, 0.1, oracle_like) == "oracle"
    assert at.basin_prediction(TASK, 0.1, swapped_like) == "swapped"


def test_optimal_inverse_temperatures_of_the_table():
    """(d, L): best inverse temperature and risk at gamma^2 = 1/2."""
    table = {
        (10, 10): (0.0836, 0.395),
        (50, 10): (0.0974, 0.230),
        (400, 100): (0.0295, 0.264),
        (25600, 10): (0.0138, 0.00255),
    }
    for (dim, length), (lam, value) in table.items():
        best, at_best = at.optimal_inverse_temperature(at.SingleLocation(dim, length), at.Erf)
        assert best == pytest.approx(lam, abs=6e-5)
        assert at_best.value == pytest.approx(value, rel=3e-3)


def test_optimal_inverse_temperature_of_softmax_is_the_signal_at_gamma_one():
    task = at.SingleLocation(30, 6, gamma=1.0)
    best, at_best = at.optimal_inverse_temperature(task, at.Softmax)
    assert best == pytest.approx(task.signal, rel=SIX_DIGITS)
    assert at_best.log_excess == pytest.approx(task.bayes_risk().log_excess, abs=INTEGRAL)


def test_optimal_inverse_temperature_zero_and_infinite():
    useless = at.SingleLocation(30, 6, signal=0.0)
    assert at.optimal_inverse_temperature(useless, at.Erf)[0] == 0.0
    with pytest.raises(at.AttnscopeError, match="must be finite"):
        at.optimal_inverse_temperature(
            at.SingleLocation(30, 1),
            lambda t: at.Componentwise(lambda x: x * x / (1 + x * x), t),
        )


def test_a_point_without_curvature_is_called_flat():
    """The best sigma passes no background: where k misses k* altogether,
    the risk hardly depends on anything.
    """
    task = at.SingleLocation(dim=80, length=10)
    kinds = {p.name: p.kind for p in at.stationary_points(task, at.optimal_sigma(task))}
    assert kinds.pop("oracle") == "minimum"
    # where on the plateau the search ends, and so its name, says nothing
    assert set(kinds.values()) == {"flat"}
    assert {p.name: p.kind for p in at.stationary_points(task, at.Erf(0.1))}[
        "degenerate"
    ] == "saddle"


def test_points_are_named_by_where_they_are():
    """Newton's method from the erf points ends elsewhere for softmax:
    k = -k* is neither degenerate nor swapped; nothing twice.
    """
    for predictor in (
        at.Softmax(0.3),
        at.Softmax(2.0),
        at.SoftmaxOne(1.0),
        at.LinearAttention(0.1, 0.3),
    ):
        points = at.stationary_points(SMALL, predictor)
        seen = [np.array(p.overlaps) for p in points]
        assert all(np.abs(x - y).max() > 1e-6 for i, x in enumerate(seen) for y in seen[:i])
        for p in points:
            o = p.overlaps
            assert (p.name == "degenerate") == (max(abs(x) for x in o[:4]) < 1e-6)
            assert (p.name == "reversed") == (
                min(abs(o.kappa), abs(o.nu)) > 1 - 1e-6 and min(o.kappa, o.nu) < 0
            )
            assert p.name != "swapped" or (
                abs(o.eta) > abs(o.kappa) and abs(o.theta) > abs(o.nu)
            )
    with pytest.raises(at.AttnscopeError, match="saddle at orthogonal vectors"):
        at.escape_time(SMALL, at.Softmax(0.3), 1e-2, at.Overlaps(0.01, 0.01, 0.01, 0.01, 0.0))


def test_optimal_inverse_temperature_of_softmax_at_a_huge_signal():
    """For s -> inf the gap g of two scores has density e^(tau g), tau = s/(1 + gamma^2), so with t
    = tau/lam E weight^2 = t (1 - t) pi/(tau sin(pi t)), least at t = 1/2."""
    task = at.SingleLocation(10**8, 10**4)
    best, _ = at.optimal_inverse_temperature(task, at.Softmax)
    assert best == pytest.approx(2 * task.signal / (1 + task.gamma**2), rel=THREE_DIGITS)
    with pytest.raises(at.AttnscopeError, match="try a smaller signal"):
        at.optimal_inverse_temperature(at.SingleLocation(10**9, 10**4), at.Softmax)


@pytest.mark.parametrize(
    ("gamma", "signal", "length"),
    [(1.0, 20.0, 10**12), (1e4, 1.0, 2), (6e-4, 7e-4, 1), (0.7, 1e4, 1)],
)
def test_optimal_inverse_temperature_of_linear_attention_is_its_formula(
    gamma, signal, length
):
    task = at.SingleLocation(50, length, gamma=gamma, signal=signal)
    best, _ = at.optimal_inverse_temperature(task, at.LinearAttention)
    truth = signal * gamma**2 / (gamma**2 * (gamma**2 + signal**2) + (length - 1))
    assert best == pytest.approx(truth, rel=SOLVED)
