"""What makes the sentences of slr-13 false."""

from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_on_vectors", "_best_risks")

MUTATIONS = (
    *moved("crossing", "CROSSING"),
    *replaced(
        "crossing",
        "the swapped risk is 2 % lower everywhere",
        "_swapped_minimum_risk",
        lambda swap: lambda task, lam: 0.98 * swap(task, lam),
    ),
    *moved("gap", "GAP"),
    *replaced(
        "gap",
        "exchanging the roles has no effect",
        "_on_vectors",
        lambda drawn: (
            lambda *args: (lambda star, swap, gap: (star, star, 0 * gap + [[0.0], [1e-6]]))(
                *drawn(*args)
            )
        ),
    ),
    *moved("ratio", "RATIOS", entry=0),
    *moved("ratio", "RATIOS", entry=-1),
    *replaced(
        "law",
        "L - 1 without gamma^4",
        "_law",
        lambda law: lambda task: 2 * (task.length - 1) / task.dim,
    ),
    *moved("exponent", "EXPONENT"),
    *replaced(
        "lowest",
        "the lowest stationary point is the oracle",
        "stationary_points",
        lambda points: lambda *args: [p for p in points(*args) if p.name == "oracle"],
    ),
)

REBUILT = {
    "risk at (k*, v*), vectors, d = 400": DROPPED,
    "risk at the swapped minimum, vectors, d = 400": DROPPED,
    "oracle minus swapped at temperature 0.05": DROPPED,
    "oracle minus swapped where they cross, temperature 0.0907": DROPPED,
}
