"""One fused pass over the data (loss and gradient) against the same by NumPy/BLAS,
checked equal first.
"""

from __future__ import annotations

import time

import numpy as np
from bars import Row

from attnscope.numerics.compiled.data_pass import GAUSSIAN, MIXTURE, data_pass

REPEATS = 7  # the least of them
BAR = 2.0  # times faster


def pass_times(n: int = 3000, length: int = 32, d: int = 256) -> tuple[float, float]:
    """Milliseconds (fused, NumPy/BLAS) for n bags of `length` tokens in d dimensions."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n * length, d)), rng.standard_normal(n)
    k, v, offsets = (
        rng.standard_normal(d) / 16,
        rng.standard_normal(d) / 16,
        np.arange(n + 1) * length,
    )
    none, zero = np.empty((len(x), 0)), np.zeros(len(x))

    def fused():
        return data_pass(
            x,
            none,
            zero,
            offsets,
            y,
            np.ones(n),
            k,
            v[:, None],
            np.zeros(1),
            GAUSSIAN,
            MIXTURE,
            1.0,
        )

    def plain():
        u, w = (x @ k).reshape(n, length), (x @ v).reshape(n, length)
        log_p = u - np.logaddexp.reduce(u, axis=1, keepdims=True)
        joint = log_p - (y[:, None] - w) ** 2 / 2
        top = np.logaddexp.reduce(joint, axis=1, keepdims=True)
        r = np.exp(joint - top)
        return (
            -top.sum(),
            x.T @ (np.exp(log_p) - r).ravel(),
            x.T @ (r * (w - y[:, None])).ravel(),
        )

    a = fused()
    b = plain()
    assert (
        np.allclose(a[0], b[0], rtol=1e-10)
        and np.allclose(a[1], b[1])
        and np.allclose(a[2][:, 0], b[2])
    )
    fast, slow = (1e3 * min(_timed(f) for _ in range(REPEATS)) for f in (fused, plain))
    return fast, slow


def _timed(function) -> float:
    clock = time.perf_counter()
    function()
    return time.perf_counter() - clock


def row() -> Row:
    fused, plain = pass_times()
    return Row(
        "one data pass, ms",
        fused,
        f"<= {1 / BAR:g}x",
        "NumPy/BLAS",
        plain,
        fused <= plain / BAR,
    )
