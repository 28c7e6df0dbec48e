"""fit_linear_attention against a plain LAPACK least-squares solve of the same system.

    python bench/bench_linear_attention.py

Target: n = 5,000 contexts of 32 tokens, D = 8 (288 features): within 1.5 times, the features, the
certificate and the error bounds included in ours and not in LAPACK's. Both drivers are shown: dgels
(QR, no certificate) and dgelsd (singular values). Nothing is printed unless both agree with ours.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from bench_operators import interleaved
from scipy.linalg import lapack
from table import limit, shown

from attnscope.estimators.linear_attention.cubic_features import cubic_features, units_of
from attnscope.estimators.linear_attention.fit import fit_linear_attention

CONTEXTS = 5000
LENGTH = 32
D = 8
BAR = 1.5
SAME = 1e-9  # relative: the same minimum and the same coefficients, before any time is shown


def main() -> None:
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((CONTEXTS, LENGTH, D))
    query = rng.standard_normal((CONTEXTS, D))
    target = rng.standard_normal((CONTEXTS, 1))
    units = units_of(tokens, query)
    X = np.array(cubic_features(tokens, query, units)[0].T, order="F")
    room = int(lapack.dgels_lwork(*X.shape, 1)[0])
    fit = fit_linear_attention(tokens, query, target)
    plain = lapack.dgels(X, target, lwork=room)[1][: X.shape[1]]
    least = np.linalg.lstsq(X, target, rcond=None)
    assert fit.identified
    assert abs(fit.optimum.value / (least[1][0] / CONTEXTS) - 1) < SAME
    for other in (plain, least[0]):
        assert np.linalg.norm(
            fit._solution.balanced - other / fit._solution.output
        ) < SAME * (np.linalg.norm(other))
    print(
        f"\nlinear attention, n = {CONTEXTS}, D = {D}, {X.shape[1]} features\n"
        f"{'what':<52}{'ours':>12}{'LAPACK':>12}{'ratio':>9}{'bar':>8}  ok"
    )
    for name, baseline in (
        ("dgels, features already built", lambda: lapack.dgels(X, target, lwork=room)),
        (
            "dgelsd, features already built",
            lambda: np.linalg.lstsq(X, target, rcond=None),
        ),
    ):
        ours, theirs = interleaved(
            lambda: fit_linear_attention(tokens, query, target), baseline
        )
        ratio = ours / theirs
        print(
            f"{name:<52}{shown(ours):>12}{shown(theirs):>12}{ratio:>8.2f}x{BAR:>7.1f}x  "
            f"{'yes' if ratio <= BAR else 'NO'}"
        )
    start = perf_counter()
    found = fit.heads(D // 2)
    limit(
        f"heads({len(found.value)}), one output (residual {found.residual:.0e})",
        perf_counter() - start,
        10.0,
    )


if __name__ == "__main__":
    main()
