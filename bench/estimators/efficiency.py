"""Well-specified bags, n = 20 d: mean regret over 200 replicates against the Cramér-Rao limit of
the model that is fitted.

The limit counts what the estimator does not know: key, spread, value, noise, intercept, the
background's mean and covariance. Tokens are mixed by a fixed matrix, so that the background's
covariance is truly unknown (the limit does not change: the model is closed under linear maps); with
a round background an estimator that shrinks towards round ones beats it. `minimal` in the notes is
the smaller limit with intercept and background known, which an estimator that has to learn them
cannot reach.

Means are corrected by a control variate: least squares with the location known on the same bags,
whose mean regret is known exactly. It removes most of the scatter between replicates; the interval
is that of what remains.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from bars import Results, Row

import attnscope as at

DIM = 20
LENGTH = 10
NOISE = 0.3
BAGS = 400
CASES = {
    "Cramér-Rao s=5": 5.0,
    "Cramér-Rao s=3.2": (DIM / 2) ** 0.5,
}  # the location nearly known, and doubtful in some bags
WIDTHS = (0.3, 3.0)  # of the mixed background along its principal axes
REPLICATES = 40  # per seed; five seeds make 200
TEST = 4000
BAR = 1.10


def the_task(case: str, seed: int = 0) -> at.SingleLocation:
    return at.SingleLocation(
        dim=DIM, length=LENGTH, noise=NOISE, signal=CASES[case], seed=seed
    )


def measure(case: str, model: str, seed: int) -> dict:
    """Regret of each replicate on fresh test bags:
    mean squared distance from the Bayes predictions.
    """
    rng = np.random.default_rng(7)
    turns = [np.linalg.qr(rng.standard_normal((DIM, DIM)))[0] for _ in range(2)]
    mix = turns[0] * np.geomspace(*WIDTHS, DIM) @ turns[1]
    regret = []
    for i in range(REPLICATES * seed, REPLICATES * (seed + 1)):
        task = the_task(case, i)
        train = task.sample(BAGS, seed=10_000 + i)
        test = task.sample(TEST, seed=20_000 + i)
        fitted = at.SingleLocationRegressor(random_state=i).fit(
            train.tokens @ mix, train.target
        )
        regret.append(
            float(
                np.mean(
                    (fitted.predict(test.tokens @ mix) - task.bayes_predict(test.tokens)) ** 2
                )
            )
        )
    return {"regret": regret}


def least_squares(case: str, seed: int) -> list[float]:
    """The same replicates with the location known:
    E (x.(v_hat - v) + b_hat)^2 over x ~ N(s k*, gamma^2 I).
    """
    out = []
    for i in range(REPLICATES * seed, REPLICATES * (seed + 1)):
        task = the_task(case, i)
        train = task.sample(BAGS, seed=10_000 + i)
        x = np.column_stack([train.tokens[np.arange(BAGS), train.location], np.ones(BAGS)])
        gap = np.linalg.lstsq(x, train.target, rcond=None)[0] - np.append(task.value, 0)
        out.append(
            (gap[:-1] @ task.key * task.signal + gap[-1]) ** 2
            + task.gamma**2 * gap[:-1] @ gap[:-1]
        )
    return out


def known_mean() -> float:
    """Mean of `least_squares`, from that of an inverse Wishart matrix."""
    return NOISE**2 * ((BAGS + 1) * (BAGS - 2) / (BAGS * (BAGS - DIM - 2)) - 1)


def mean_regret(results: Results, case: str) -> tuple[float, float]:
    """Mean and half-width of its 95 % interval, with the control variate."""
    regret = results.values(case, "ours", "regret")  # (seeds, replicates)
    control = np.ravel([least_squares(case, seed) for seed in range(len(regret))])
    slope = np.cov(regret.ravel(), control)[0, 1] / control.var(ddof=1)
    rest = regret.ravel() - slope * (control - known_mean())
    return float(rest.mean()), float(1.96 * rest.std(ddof=2) / np.sqrt(len(rest)))


def rows(results: Results) -> Iterator[Row]:
    for case in CASES:
        if (case, "ours") in results:
            mean = mean_regret(results, case)[0]
            limit = at.cramer_rao(the_task(case), BAGS, True, True).value
            yield Row(
                f"{case}, d={DIM}, n={BAGS}: regret",
                mean,
                f"<= {BAR:g}x",
                "Cramér-Rao",
                limit,
                mean <= BAR * limit,
            )


def notes(results: Results) -> Iterator[str]:
    """Ratios to both limits with their 95 % intervals."""
    for case in CASES:
        if (case, "ours") in results:
            mean, half = mean_regret(results, case)
            said = []
            for name, unknown in (("the fitted model's", True), ("the minimal", False)):
                limit = at.cramer_rao(the_task(case), BAGS, unknown, unknown).value
                said.append(
                    f"{name} limit {mean / limit:.3f} [{(mean - half) / limit:.3f}, "
                    f"{(mean + half) / limit:.3f}]"
                )
            count = results.values(case, "ours", "regret").size
            yield f"{case}, {count} replicates: regret over " + ", over ".join(said)
            floor = at.cramer_rao(the_task(case), BAGS, False, False).value
            yield f"  least squares with intercept and the location known, exactly: over the minimal limit {known_mean() / floor:.3f}"
