"""CorrelatedBackground: bad input, each one sentence."""

import numpy as np
import pytest
from helpers.correlated import INNER, correlated
from helpers.settings import one_sentence

import attnscope as at

GOOD = correlated()


STUDENT = correlated(degrees_of_freedom=4.0)


CASES = {
    "task": (
        lambda: at.CorrelatedBackground("x"),
        "task of CorrelatedBackground must be a SingleLocation",
    ),
    "mean": (
        lambda: at.CorrelatedBackground(INNER, mean=np.zeros(3)),
        r"mean of .* must be a real array of shape \(5,\)",
    ),
    "shape": (
        lambda: at.CorrelatedBackground(INNER, covariance=np.eye(3)),
        "covariance of .* must be a real array of shape",
    ),
    "symmetric": (
        lambda: at.CorrelatedBackground(INNER, covariance=np.eye(5) + np.eye(5, k=1)),
        "covariance of CorrelatedBackground must be symmetric",
    ),
    "definite": (
        lambda: at.CorrelatedBackground(INNER, covariance=np.ones((5, 5))),
        "covariance of CorrelatedBackground must be positive definite",
    ),
    "freedom": (
        lambda: at.CorrelatedBackground(INNER, degrees_of_freedom=2.0),
        "degrees_of_freedom of CorrelatedBackground must be a finite number > 2",
    ),
    "informative": (
        lambda: at.CorrelatedBackground(INNER, informative="white"),
        "informative of .* must be one of",
    ),
    "huge": (
        lambda: at.CorrelatedBackground(at.SingleLocation(10**7, 3)),
        "covariance of CorrelatedBackground must fit in memory",
    ),
    "whiten": (
        lambda: STUDENT.whiten(),
        "the background of CorrelatedBackground.whiten must be Gaussian",
    ),
    "tokens": (
        lambda: GOOD.posterior(np.zeros((2, 3, 5))),
        "tokens of CorrelatedBackground.location_posterior must be",
    ),
    "samples": (
        lambda: STUDENT.bayes_risk(samples=1),
        "samples of CorrelatedBackground.bayes_risk must be an integer >= 2",
    ),
    "risk task": (
        lambda: at.correlated_risk(INNER, at.Erf(0.1)),
        "task of correlated_risk must be a CorrelatedBackground",
    ),
    "softmax": (
        lambda: at.correlated_risk(GOOD, at.Softmax(1.0)),
        "predictor of correlated_risk must be Erf or another",
    ),
    "tanh": (
        lambda: at.correlated_risk(STUDENT, at.Componentwise(np.tanh, 1.0)),
        "predictor of correlated_risk must be Erf with degrees_of_freedom",
    ),
    "k": (
        lambda: at.correlated_risk(GOOD, at.Erf(0.1), k=np.ones(3)),
        "k of correlated_risk must be a real array",
    ),
    "intercept": (
        lambda: at.correlated_risk(GOOD, at.Erf(0.1), intercept=1.0),
        "intercept of .* must be True or False",
    ),
    "schedule": (
        lambda: at.correlated_risk(GOOD, at.Erf(at.InverseTime(1.0, rate=1e-4))),
        "inverse_temperature of correlated_risk must be a number",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_sentence(name):
    call, message = CASES[name]
    one_sentence(call, message)
