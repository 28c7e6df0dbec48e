"""Learning curves of any kernel, spectra, a shared layer: printed numbers, other routes, bad input.

Sampled comparisons allow 5 standard errors (6e-7 each) at seeds fixed before looking.
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT, FEW_ROUNDINGS, FORMULA
from scipy.special import zeta

import attnscope as at
from attnscope.tasks.exchangeable.sphere_regression import harmonic_count
from attnscope.theory.exchangeable.learning_curves import cme_curve


def curve(m, beta, lengths, top=400, noise=0.5):
    s = at.sphere_spectrum(m, beta, top)
    return at.kernel_bayes_curve(s.eigenvalues, s.multiplicities, noise, lengths, s.trace)


def test_the_printed_curves_of_spheres():
    """The five digits of the note (m = 1 with 400 degrees)."""
    lengths = [64, 256, 1024]
    assert np.round(curve(1, 1.0, lengths).excess, 5).tolist() == [0.05127, 0.02028, 0.00811]
    assert np.round(curve(2, 1.0, lengths, 3000).excess, 5).tolist() == [
        0.07988,
        0.03996,
        0.02013,
    ]
    assert np.round(curve(4, 1.0, lengths, 3000).excess, 5).tolist() == [
        0.05117,
        0.02847,
        0.01636,
    ]


@pytest.mark.parametrize(
    ("m", "beta", "first", "last"),
    [(1, 1.0, -0.6595, -0.6654), (2, 1.0, -0.4924, -0.4972), (2, 2.0, -0.638, -0.657), (4, 1.0, -0.381, -0.348)],
)  # fmt: skip
def test_the_printed_local_slopes(m, beta, first, last):
    """Over the decades from 10^3 and from 10^6."""
    values = curve(m, beta, [10**3, 10**4, 10**6, 10**7], 20_000).excess
    slopes = np.log10(values[1] / values[0]), np.log10(values[3] / values[2])
    digits = 5.1e-5 if beta == 1 and m < 4 else 5.1e-4
    assert abs(slopes[0] - first) < digits and abs(slopes[1] - last) < digits


def test_it_is_the_cme_curve_at_the_matched_ridge():
    """The RBF kernel on the sphere as a process: same equation, solved elsewhere."""
    from attnscope.tasks.exchangeable.sphere_regression import harmonic_count

    degree = np.arange(40)
    mu = at.kernel_eigenvalues(3, 1.0, degree)
    N = np.array([harmonic_count(3, int(l)) for l in degree], dtype=float)
    power = mu * N
    for length in (1, 30, 1000):
        found = at.kernel_bayes_curve(mu[:20], N[:20], 0.5, length, 1.0)
        other = cme_curve(3, length, 0.25, 1.0, 0.5, power)
        assert abs(found.excess - other) < 1e-10  # what cme_curve promises


def test_one_eigenvalue_by_hand():
    """kappa L = s^2 + N mu kappa/(mu + kappa): a quadratic."""
    for mu, N, s, L in ((1.0, 3, 0.5, 3), (1e-3, 50, 2.0, 7), (5.0, 1, 1e-3, 1)):
        b = L * mu - s * s - N * mu
        kappa = (-b + np.sqrt(b * b + 4 * L * s * s * mu)) / (2 * L)
        found = at.kernel_bayes_curve([mu], [N], s, L)
        assert found.excess == pytest.approx(N * mu * kappa / (mu + kappa), rel=EXACT)
        assert found.value == pytest.approx(found.excess + s * s, rel=FEW_ROUNDINGS)


def test_what_is_not_listed_is_in_the_error():
    mu = np.arange(1.0, 4001) ** -2.0
    N = np.ones(4000)
    whole = at.kernel_bayes_curve(mu, N, 0.5, [10, 1000, 10**5])
    cut = at.kernel_bayes_curve(mu[:300], N[:300], 0.5, [10, 1000, 10**5], float(mu.sum()))
    assert (np.abs(whole.excess - cut.excess) <= cut.error).all()
    assert cut.error[0] < 1e-5 < cut.error[2]
    assert (whole.error < FORMULA).all()


def test_spectra():
    s = at.sphere_spectrum(5, 1.5, 30)
    assert np.array_equal(s.multiplicities, [harmonic_count(6, l) for l in range(31)])
    assert np.sum(s.eigenvalues * s.multiplicities) == pytest.approx(1, abs=FEW_ROUNDINGS)
    p = at.product_spectrum([1, 1], [1.0, 0.5], cut=1e-4)
    assert p.trace == pytest.approx((1 + 2 * zeta(2)) * (1 + zeta(2)), rel=FEW_ROUNDINGS)
    assert p.eigenvalues.min() >= 1e-4 * (1 - EXACT)
    k = np.arange(-110, 111)  # every pair of frequencies, by hand
    first, second = (np.where(k, w / np.maximum(k * k, 1.0), 1.0) for w in (1.0, 0.5))
    every = np.outer(first, second)
    listed = every[every >= 1e-4 * (1 - EXACT)]
    assert p.multiplicities.sum() == len(listed)
    total = np.sum(p.eigenvalues * p.multiplicities)
    assert total == pytest.approx(listed.sum(), rel=EXACT) and total < p.trace


def test_the_printed_errors_of_a_shared_layer():
    printed = {8: 0.013341, 32: 0.013204, 128: 0.013169}
    for positions, excess in printed.items():
        assert round(at.shared_layer_risk(positions, 20, 0.5).excess, 6) == excess
    assert round(at.shared_layer_risk(8, 20, 0.5, shared=False).excess, 5) == 0.18182
    assert round(at.shared_layer_risk(32, 80, 0.5, shared=False).excess, 5) == 0.17021


def test_one_and_two_positions():
    """One position: one number from n sequences, s^2/(n-2), shared or not."""
    assert at.shared_layer_risk(1, 9, 1.0).excess == pytest.approx(1 / 7, rel=FEW_ROUNDINGS)
    assert at.shared_layer_risk(1, 9, 1.0, False).excess == pytest.approx(
        1 / 7, rel=FEW_ROUNDINGS
    )
    assert at.shared_layer_risk(2, 9, 1.0).excess == pytest.approx(1 / 7, rel=FEW_ROUNDINGS)


CASES = {
    "eigenvalues": (
        lambda: at.kernel_bayes_curve([1.0, 0.0], [1, 1], 0.5, 10),
        "eigenvalues of kernel_bayes_curve must be positive, got smallest entry 0",
    ),
    "multiplicities": (
        lambda: at.kernel_bayes_curve([1.0, 0.5], [1], 0.5, 10),
        r"multiplicities of kernel_bayes_curve must be a real array of shape \(2,\)",
    ),
    "noise": (lambda: at.kernel_bayes_curve([1.0], [1], 0.0, 10), "noise of .* > 0"),
    "length": (lambda: at.kernel_bayes_curve([1.0], [1], 0.5, [4, 0]), "length of .* >= 1"),
    "ragged": (
        lambda: at.kernel_bayes_curve([1.0], [1], 0.5, [[1, 2], [3]]),
        "length of kernel_bayes_curve must be an integer >= 1 or an array of them",
    ),
    "no length": (lambda: at.kernel_bayes_curve([1.0], [1], 0.5, []), "length of .*, got"),
    "trace": (
        lambda: at.kernel_bayes_curve([1.0], [3], 0.5, 10, trace=2.0),
        "trace of .* must be at least the sum of the listed eigenvalues, 3, got 2.0",
    ),
    "dimension": (lambda: at.sphere_spectrum(0, 1.0), "dimension of .* an integer >= 1"),
    "smoothness": (lambda: at.sphere_spectrum(2, 0.0), "smoothness of .* > 0"),
    "rough": (
        lambda: at.product_spectrum([0.5], [1.0]),
        "smoothness of product_spectrum must be above 1/2",
    ),
    "weights": (
        lambda: at.product_spectrum([1], [2.0]),
        r"weights of .* must be in \(0, 1\]",
    ),
    "cut": (
        lambda: at.product_spectrum([0.6] * 3, [1.0] * 3, cut=1e-9),
        "cut of product_spectrum must be such that at most 10000000 eigenvalues",
    ),
    "sequences": (
        lambda: at.shared_layer_risk(8, 2, 0.5),
        "sequences of shared_layer_risk must be at least 3",
    ),
    "own sequences": (
        lambda: at.shared_layer_risk(32, 20, 0.5, shared=False),
        "must be at least 34: .*, got 20; try shared=True",
    ),
    "shared": (lambda: at.shared_layer_risk(8, 20, 0.5, shared="no"), "True or False"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_sentence(name):
    call, words = CASES[name]
    with pytest.raises(at.AttnscopeError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
