"""How often `diagnose` names the problem: n = 100 bags of L = 8 tokens in d = 16.

    python bench/estimators/diagnose_cases.py [CASES ...] [--first 1000] [--seeds 100]

    noise     standard normal tokens, labels that have nothing to do with them
    mean      y = sqrt(L) v.(mean token) + noise
    weak      SingleLocation with a key of 1.5 (deciding tokens of spread gamma = sqrt(1/2))
    clear     the same with a key of 5
    weak sd, clear sd    the same with gamma = 1: keys of 1.5 and 5 standard deviations

noise .1 everywhere, v a random direction. The model is the default regressor, and `diagnose` gets
the bags it was fitted on: there are no others. Bar: the right verdict in at least 95 of 100 seeds
of the first four. Seeds 0-99 were used to set the thresholds of estimators/verdict.py, 1000-1099
were not looked at before they were printed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections import Counter

import numpy as np

import attnscope as at

BAGS, LENGTH, DIM, NOISE = 100, 8, 16, 0.1
RIGHT = {
    "noise": "not a single-location problem",
    "mean": "mean",
    "weak": "too weak or not single",
    "clear": "single",
    "weak sd": "too weak or not single",
    "clear sd": "single",
}


def planted(key: float, gamma: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    task = at.SingleLocation(
        dim=DIM, length=LENGTH, signal=key, gamma=gamma, noise=NOISE, seed=seed
    )
    batch = task.sample(BAGS, seed=seed + 1)
    return batch.tokens, batch.target


def draw(case: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if case not in ("noise", "mean"):
        key = 1.5 if case.startswith("weak") else 5.0
        return planted(key, 1.0 if case.endswith("sd") else np.sqrt(0.5), seed)
    rng = np.random.default_rng([seed, 77])
    tokens = rng.standard_normal((BAGS, LENGTH, DIM))
    if case == "noise":
        return tokens, rng.standard_normal(BAGS)
    value = rng.standard_normal(DIM)
    value /= np.linalg.norm(value)
    y = np.sqrt(LENGTH) * tokens.mean(axis=1) @ value
    return tokens, y + NOISE * rng.standard_normal(BAGS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", default=list(RIGHT))
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=100)
    given = parser.parse_args()
    for case in given.cases:
        named: Counter[str] = Counter()
        fitting = diagnosing = 0.0
        for seed in range(given.first, given.first + given.seeds):
            tokens, y = draw(case, seed)
            clock = time.process_time()
            model = at.SingleLocationRegressor().fit(tokens, y)
            middle = time.process_time()
            found = model.diagnose(tokens, y)
            named[found.verdict] += 1
            fitting += middle - clock
            diagnosing += time.process_time() - middle
        others = ", ".join(f"{n} {word}" for word, n in named.most_common())
        print(
            f"{case:<10} {named[RIGHT[case]]:>3} of {given.seeds} {RIGHT[case]!r}   [{others}]   "
            f"fit {fitting / given.seeds:.2f} s, diagnose {diagnosing / given.seeds:.4f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
