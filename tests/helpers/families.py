"""One way to run a family of the subjects of the stress tests as a test.

False alarms: deterministic settings have none; the sampled ones of a run count SAMPLED at most,
each with 5.7e-7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from stress.attack import attack_one, families, shares

# settings of `make test` and of each seed of `make test-all`
QUICK = 1500
LONG = 10_000
LONG_SEEDS = (101, 102, 103)  # chosen before looking
# dear subjects, half a second and more a setting: `make test` has so many of their settings at most,
# `make test-all` all of QUICK as well
FEW = {
    "MultiLocation.bayes_risk": 8,
    "SingleLocationClassifier": 2,
    "SingleLocationRegressor": 2,
    "bags_needed": 0,
    "best_ridge": 0,
    "heads_risk": 10,
    "learning_curve": 2,
    "learning_curve, fitted": 0,
    "message_passing": 2,
    "train full": 0,
}


def family_tests(*names: str) -> tuple[Callable[[str], None], Callable[[str, int], None]]:
    """Two tests of these families, to be named test_quick and test_long where they are assigned."""

    @pytest.mark.parametrize("family", names)
    def quick(family: str) -> None:
        stands(family, QUICK, seed=0, few=FEW)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("family", "seed"),
        [(name, seed) for seed in LONG_SEEDS for name in names]
        + [(name, 0) for name in names if any(s.name in FEW for s in families()[name])],
    )
    def long(family: str, seed: int) -> None:
        stands(family, LONG if seed in LONG_SEEDS else QUICK, seed)

    return quick, long


def counts(settings: int) -> dict[str, int]:
    """Settings per subject's name when `settings` are spread over all families."""
    subjects = [subject for group in families().values() for subject in group]
    return dict(
        zip((subject.name for subject in subjects), shares(subjects, settings), strict=True)
    )


def stands(
    family: str, settings: int, seed: int, few: Mapping[str, int] | None = None
) -> None:
    """Every setting of the family keeps its rule, of the subjects in `few` the first so many;
    all failures are shown, not only the first.
    """
    share = counts(settings)
    most = few or {}
    outcomes = [
        attack_one(subject, number, seed)
        for subject in families()[family]
        for number in range(share[subject.name])[: most.get(subject.name)]
    ]
    wrong = [
        f"{o.subject} #{o.number} {o.setting}: {o.trouble}" for o in outcomes if o.trouble
    ]
    if wrong:
        pytest.fail(
            f"{len(wrong)} of {len(outcomes)} settings, seed {seed}:\n"
            + "\n".join(wrong[:20])
        )
