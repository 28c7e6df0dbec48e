"""The task on stage: the page's arithmetic against the library's, number by number."""

import math

import numpy as np
import pytest
from helpers.javascript import ASSETS, evaluated
from scipy import special

import attnscope as at
from attnscope.registry import PREDICTORS
from attnscope.theory.optima.optimal_sigma import optimal_sigma

NUMBERS = [ASSETS / "numbers.js"]
STAGE = [*NUMBERS, ASSETS / "stage.js"]
SAME = 1e-12  # two orders of the same few dozen float64 operations


def setting(**changed):
    base = {"dim": 50, "length": 8, "gamma": 0.5**0.5, "signal": None, "noise": 0.3}
    base |= {"predictor": "erf", "inverse_temperature": 0.7, "seed": 3}
    base |= {"overlaps": {"kappa": 0.6, "eta": -0.3, "theta": 0.2, "nu": 0.7, "rho": 0.25}}
    return base | changed


def found(settings):
    return evaluated(STAGE, "given.map(attnscopeStage.sequence)", settings)


def test_erf_and_erfc_are_those_of_scipy():
    x = np.concatenate([np.linspace(-7, 26, 4001), np.geomspace(1e-300, 1, 50)])
    erf = evaluated(NUMBERS, "given.map(attnscopeNumbers.erf)", x.tolist())
    erfc = evaluated(NUMBERS, "given.map(attnscopeNumbers.erfc)", x.tolist())
    np.testing.assert_allclose(erf, special.erf(x), rtol=1e-15 * 5, atol=0)
    # e^(-x^2) has a relative error of x^2 roundings, and 1 - erf(2) loses a factor of 200
    np.testing.assert_allclose(erfc, special.erfc(x), rtol=2e-13, atol=1e-300)


def test_normal_and_chi_square_draws_have_their_moments():
    """Mean and variance within 5 standard errors: a false alarm in 10^5 seeds; the seed is fixed."""
    n = 20000
    draw = "(() => { const g = attnscopeNumbers.generator(given[0]); "
    draw += "return Array.from({length: given[1]}, () => given[2] ? g.chi2(given[2]) : g.normal()); })()"
    for freedom in (0, 3, 30, 1000):
        x = np.array(evaluated(NUMBERS, draw, [5, n, freedom]))
        mean, variance = (freedom, 2 * freedom) if freedom else (0, 1)
        assert abs(x.mean() - mean) < 5 * math.sqrt(variance / n)
        fourth = np.mean((x - mean) ** 4)
        assert abs(x.var() - variance) < 5 * math.sqrt((fourth - variance**2) / n)


@pytest.mark.parametrize("word", [*PREDICTORS, "sigma"])
def test_weights_and_predictions_are_those_of_the_library(word):
    settings = [
        setting(predictor=word, inverse_temperature=t, seed=s)
        for t in (0.05, 1.0, 20.0)
        for s in (0, 1)
    ]
    task = at.SingleLocation(dim=50, length=8, noise=0.3)
    for given, out in zip(settings, found(settings)):
        lam = given["inverse_temperature"]
        predictor = (
            optimal_sigma(task)
            if word == "sigma"
            else PREDICTORS[word].make({"inverse_temperature": lam})
        )
        scores = np.array([out["scores"]]) * (1.0 if word == "sigma" else lam)
        weights = predictor.weights(scores)[0]
        np.testing.assert_allclose(out["weights"], weights, rtol=SAME, atol=SAME)
        answer = weights @ np.array(out["values"])
        assert abs(out["prediction"] - answer) <= SAME * np.abs(weights * out["values"]).sum()


def test_tokens_are_projected_on_directions_with_exactly_these_overlaps():
    given = setting()
    (out,) = found([given])
    frame = np.array(out["frame"])
    k, v = np.array(out["head"]["k"]), np.array(out["head"]["v"])
    made = [k[0], k[1], v[0], v[1], k @ v]
    np.testing.assert_allclose(made, list(given["overlaps"].values()), rtol=SAME)
    np.testing.assert_allclose([k @ k, v @ v], 1, rtol=SAME)
    np.testing.assert_allclose(out["scores"], frame @ k, rtol=SAME)
    np.testing.assert_allclose(out["values"], frame @ v, rtol=SAME)
    np.testing.assert_array_equal(out["teacherKey"], frame[:, 0])
    np.testing.assert_array_equal(out["teacherValue"], frame[:, 1])


def test_posterior_and_bayes_prediction_are_those_of_the_library():
    """In d = 4 the frame is the whole space, so the tokens go to the library as they are."""
    task = at.SingleLocation(
        dim=4, length=8, gamma=0.6, key=np.eye(4)[0], value=np.eye(4)[1], signal=1.5
    )
    for out in found([setting(dim=4, gamma=0.6, signal=1.5, seed=s) for s in range(5)]):
        tokens = np.array([out["frame"]])
        posterior = task.location_posterior(tokens)[0]
        np.testing.assert_allclose(out["posterior"], posterior, rtol=SAME, atol=SAME)
        assert out["bayes"] == pytest.approx(task.bayes_predict(tokens)[0], rel=1e-11)


def test_the_sequence_has_the_law_of_the_task():
    """Over 2000 seeds: location uniform, tokens with their means and variances, labels too.

    Each mean within 5 standard errors: a false alarm in 10^5 sets of seeds; these are fixed.
    """
    n, d, length, gamma, noise = 2000, 30, 4, 0.8, 0.3
    out = found(
        [setting(dim=d, length=length, gamma=gamma, noise=noise, seed=s) for s in range(n)]
    )
    where = np.array([o["location"] for o in out])
    assert np.all(
        np.abs(np.bincount(where, minlength=length) / n - 1 / length) < 5 * 0.433 / n**0.5
    )
    frame = np.array([o["frame"] for o in out])
    decides = frame[np.arange(n), where]
    assert np.all(np.abs(decides.mean(0) - [math.sqrt(d / 2), 0, 0, 0]) < 5 * gamma / n**0.5)
    assert np.all(np.abs(decides.var(0) - gamma**2) < 5 * gamma**2 * (2 / n) ** 0.5)
    others = frame[np.arange(n), (where + 1) % length]
    assert np.all(np.abs(others.var(0) - 1) < 5 * (2 / n) ** 0.5)
    rest = np.array([o["truth"] for o in out]) - decides[:, 1]
    assert abs(rest.var() - noise**2) < 5 * noise**2 * (2 / n) ** 0.5


def test_the_draw_does_not_depend_on_the_head():
    one, other = found([setting(), setting(predictor="softmax", overlaps=oracle())])
    assert one["frame"] == other["frame"] and one["truth"] == other["truth"]


def oracle():
    return {"kappa": 1, "eta": 0, "theta": 0, "nu": 1, "rho": 0}


def test_impossible_overlaps_have_no_head_and_borders_have_one():
    impossible = oracle() | {"eta": 0.5}
    parallel = {"kappa": 0.6, "eta": 0, "theta": 0.6, "nu": 0, "rho": 1}
    out = found([setting(overlaps=o) for o in (impossible, oracle(), parallel)])
    assert [o["possible"] for o in out] == [False, True, True]
    assert "weights" not in out[0]
    np.testing.assert_allclose(out[2]["scores"], out[2]["values"], rtol=1e-7)
    (said,) = evaluated(
        STAGE,
        "given.map((x) => attnscopeStage.sentence(x, attnscopeStage.sequence(x)))",
        [setting(overlaps=impossible)],
    )
    assert said.startswith("No unit vectors")


def test_the_sentence_says_weight_prediction_and_truth():
    given = setting(predictor="softmax", inverse_temperature=2.0, overlaps=oracle())
    pair = "(() => { const x = attnscopeStage.sequence(given); return [x, attnscopeStage.sentence(given, x)]; })()"
    out, said = evaluated(STAGE, pair, given)
    share = round(100 * out["weights"][out["location"]])
    assert (
        f"puts {share} % of its weight on token {out['location'] + 1}, the one that decides"
        in said
    )
    assert f"predicts {out['prediction']:.2f}, the truth is {out['truth']:.2f}" in said
