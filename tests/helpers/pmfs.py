"""Location probabilities as the Bayes integral takes them:
distinct probabilities, and how many positions have each.
"""

import numpy as np


def uniform(length):
    return np.array([1 / length]), np.array([length])


def zipf(length, power=1.0):
    p = np.arange(1.0, length + 1) ** -power
    return p / p.sum(), np.ones(length, dtype=int)
