"""What makes the sentences of around-05 false."""

import math

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_sampled_shares", "_logit", "_exact_probabilities", "_figure", "examples_needed")


def _overconfident(drawn):
    """Weights whose squares sum to more than the mass on the right coordinate."""

    def draw(*args):
        found = [list(entry) for entry in drawn(*args)]
        found[3][0] += 0.1
        return found

    return draw


def _one_example_less(exact):
    return lambda n, m, s: exact(n - 1, m, s)


def _dot_products(logit):
    """Learning finds no use for |X_j|^2."""
    return lambda *args: (logit(*args)[0] * [1, 0], logit(*args)[1])


MUTATIONS = (
    *replaced("calibrated", "overconfident weights", "_sampled_shares", _overconfident),
    *replaced("weights", "learned scores are dot products", "_logit", _dot_products),
    *replaced("mass", "one example is wasted", "_exact_probabilities", _one_example_less),
    *replaced("cosine", "one example is wasted", "_exact_probabilities", _one_example_less),
    *replaced("dot", "one example is wasted", "_exact_probabilities", _one_example_less),
    *replaced(
        "shannon",
        "C = log(1 + 1/s^2)",
        "_shannon_examples",
        lambda refined: lambda log_m, capacity: refined(log_m, 2 * capacity),
    ),
    *replaced(
        "shannon",
        "without log(n)/2",
        "_shannon_examples",
        lambda refined: lambda log_m, capacity: log_m / capacity,
    ),
    *replaced(
        "extreme",
        "2 log m in place of (1 + s^2) a^2",
        "_dot_product_examples",
        lambda extreme: lambda log_m, s: 2 * log_m,
    ),
    *replaced(
        "dot-limit",
        "dot products need 5 % fewer examples",
        "examples_needed",
        lambda needed: lambda *args: needed(*args) * (0.95 if args[-1] == "dot" else 1),
    ),
    *replaced(
        "factor",
        "the factor log(1 + 1/s^2)",
        "_factor",
        lambda f: lambda s: math.log1p(s**-2),
    ),
    *moved("unbounded", "SMALL_FACTOR"),
    *replaced(
        "unbounded",
        "dot products need at most twice as many examples",
        "examples_needed",
        lambda needed: (
            lambda task, p=0.5, scores="cosine": np.minimum(
                needed(task, p, scores), 2 * needed(task, p, "cosine")
            )
        ),
    ),
)
