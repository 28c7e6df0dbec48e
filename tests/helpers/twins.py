"""Single-location regression written as a task of the user's, of which nothing exact is known: what
nodes say of it is compared with what is exactly known of SingleLocation.
"""

import numpy as np

import attnscope as at


class Twin(at.Planted):
    """Single-location regression of gamma = 1."""

    teachers = ("key", "value")
    strength: float = 2.0

    def latents(self):
        return np.arange(self.length), np.full(self.length, 1 / self.length)

    def means(self, location):
        out = np.zeros((len(location), self.length, 2))
        out[np.arange(len(location)), location, 0] = self.strength
        return out

    def label(self, fields, location, rng):
        return fields[np.arange(len(fields)), location, 1]


def exact_twin(dim, length, strength=2.0):
    return at.SingleLocation(dim, length, gamma=1.0, signal=strength)
