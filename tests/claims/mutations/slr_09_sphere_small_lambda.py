"""What makes the sentences of slr-09 false."""

from dataclasses import replace

from helpers.mutation import moved, replaced

KEEP = ("run_experiment", "same_path", "_extend_run", "starting_overlaps", "basin_prediction")


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
