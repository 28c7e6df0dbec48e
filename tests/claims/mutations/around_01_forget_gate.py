"""What makes the sentences of around-01 false."""

from dataclasses import replace

from helpers.mutation import moved, replaced

KEEP = ("_simulate_memories", "_kalman", "best_rivals", "_figure")
SETTINGS = ("normal-99", "normal-90", "sphere-99", "sphere-90")


def other_gate(error):
    """Memories whose best forget gate is .01 above the decay of the map."""
    return lambda task, A, B, C: error(task, A - 0.01, B, C)


MUTATIONS = (
    *(
        mutation
        for setting in SETTINGS
        for mutation in replaced(
            f"place-{setting}", "the best gate is a + .01", "error_at_rest", other_gate
        )
    ),
    *replaced(
        "rivals",
        "a delta rule without a gate is as good",
        "best_rivals",
        lambda rivals: lambda task: tuple(0.9 * x for x in rivals(task)),
    ),
    *replaced("others", "the best gate is a + .01", "error_at_rest", other_gate),
    *(
        mutation
        for setting in SETTINGS
        for mutation in replaced(
            f"least-{setting}",
            "the Riccati equation has another root",
            "best_gates",
            lambda gates: (
                lambda *args: (
                    lambda it: it._replace(
                        risk=replace(it.risk, excess=1.01 * it.risk.excess)
                    )
                )(gates(*args))
            ),
        )
    ),
    *(
        mutation
        for law in ("normal", "sphere")
        for i in (1, 2)
        for mutation in replaced(
            f"curves-{law}-{i}",
            "sampled memories err by 1.1 times as much",
            "_simulate_memories",
            lambda simulated: (
                lambda *args: {
                    key: (exact, 1.1 * mean, error)
                    for key, (exact, mean, error) in simulated(*args).items()
                }
            ),
        )
    ),
    *replaced(
        "kalman",
        "the Kalman filter is 5 % above",
        "_kalman",
        lambda kalman: lambda *args: tuple(1.05 * x for x in kalman(*args)),
    ),
    *moved("within", "KALMAN_RATIO", up=False),
    *replaced(
        "within",
        "the Kalman filter is 5 % lower",
        "_kalman",
        lambda kalman: lambda *args: tuple(0.95 * x for x in kalman(*args)),
    ),
    *replaced(
        "interference",
        "d/(L + d)",
        "_interference",
        lambda left: lambda length: 8 / (length + 8),
    ),
    *replaced(
        "contracts",
        "the delta rule contracts by 1 - 1/(d + 1)",
        "_contraction",
        lambda left: lambda tokens: (1 - 1 / 9) ** tokens,
    ),
)

REBUILT = dict.fromkeys(
    ("one-hot keys: exact Bayes error by the recursion of one slot",),
    "left out: no sentence names it",
)
