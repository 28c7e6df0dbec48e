"""What makes the sentences of slr-09 false."""

from dataclasses import replace

from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("run_experiment", "_extend_run")


def _with_one_at_the_saddle(run):
    """Runs of which the first is at orthogonal vectors at the last log."""

    def changed(name, **options):
        it = run(name, **options)
        log = it.log.copy()
        log[:, 0, -1] = 0.0
        return replace(it, log=log)

    return changed


MUTATIONS = (
    *moved("share", "SHARE"),
    *replaced(
        "share",
        "starts on the manifold do no better",
        "run_experiment",
        lambda run: (
            lambda name, runs, **options: run(
                "init_manifold" if runs == 1000 else name, runs=runs, **options
            )
        ),
    ),
    *replaced(
        "settled", "one run ends at the saddle", "run_experiment", _with_one_at_the_saddle
    ),
    *replaced(
        "theta-law",
        "k and v exchange places exactly",
        "swapped_overlaps",
        lambda swapped: lambda task, lam: swapped(task, lam)._replace(theta=1.0),
    ),
    *moved("theta", "THETA"),
    *moved("swapped", "SWAPPED_EXCESS"),
    *moved("oracle", "ORACLE_EXCESS"),
)

REBUILT = {
    "overlaps against vectors in R^400, 1000 steps of 16 runs": DROPPED,
    "share of 1000 runs at the oracle": DROPPED,
    "excess risk of the swapped runs, in the limit": DROPPED,
    "excess risk of the others, in the limit": DROPPED,
}
