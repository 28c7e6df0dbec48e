import numpy as np

import attnscope as at


class SignLocation(at.Planted):
    """The sign of what one token says."""

    teachers = ("key", "value")
    signal: float = 2.0

    def latents(self):
        return np.arange(self.length), np.full(self.length, 1 / self.length)

    def means(self, location):
        out = np.zeros((len(location), self.length, 2))
        out[np.arange(len(location)), location, 0] = self.signal
        return out

    def label(self, fields, location, rng):
        return np.sign(fields[np.arange(len(fields)), location, 1])
