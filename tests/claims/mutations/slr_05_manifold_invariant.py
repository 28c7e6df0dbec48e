"""What makes the sentences of slr-05 false."""

from types import SimpleNamespace

from helpers.mutation import replaced

from attnscope.dynamics.experiments import EXPERIMENTS
from attnscope.dynamics.train import train
from attnscope.predictors.attention import Erf

KEEP = ("run_experiment", "_vectors", "_sharp_runs")


def _by_batches(*args, **kwargs):
    """Gradients of batches of 5 sequences, which are not along k* and v*."""
    e = EXPERIMENTS["init_manifold"]
    return train(
        e.task(),
        Erf(e.inverse_temperature),
        "manifold",
        16,
        400,
        e.step_size,
        100,
        0,
        5,
        progress=False,
    )


MUTATIONS = (
    *replaced(
        "overlaps",
        "gradients of batches keep it too",
        "run_experiment",
        lambda _: _by_batches,
    ),
    *replaced(
        "vectors", "gradients of batches keep it too", "_vectors", lambda _: _by_batches
    ),
    *replaced(
        "growth",
        "rounding grows at the rate of the second eigenvalue",
        "local_geometry",
        lambda geometry: (
            lambda *args: SimpleNamespace(eigenvalues=geometry(*args).eigenvalues[1:])
        ),
    ),
)

REBUILT = {
    "growth of rounding per step above the critical temperature": (
        "rounding decides where it is measured: other processors give other digits"
    )
}
