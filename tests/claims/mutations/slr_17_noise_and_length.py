"""What makes the sentences of slr-17 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_sampled_errors", "_exact_excesses")


def _times(which, factor):
    """The exact excess risk of one predictor (oracle, Bayes, linear) times a factor."""
    scale = np.where(np.arange(3) == which, factor, 1.0)
    return lambda exact: lambda *args: tuple(scale * exact(*args))


MUTATIONS = (
    *replaced(
        "oracle-10", "the oracle's risk is 20 % lower", "_exact_excesses", _times(0, 0.8)
    ),
    *replaced("bayes-10", "the Bayes risk is 30 % higher", "_exact_excesses", _times(1, 1.3)),
    *replaced(
        "linear-10", "the linear risk is 20 % lower", "_exact_excesses", _times(2, 0.8)
    ),
    *replaced(
        "noise",
        "noise adds its standard deviation",
        "_noise_variance_added",
        lambda added: lambda noise: np.abs(noise),
    ),
    *replaced(
        "noise",
        "noise adds nothing",
        "_noise_variance_added",
        lambda added: lambda noise: 0 * noise,
    ),
    *moved("short", "SHORT_EXCESSES", entry=0),
    *moved("short", "SHORT_EXCESSES", entry=1, by=0.0092),  # twice half a digit of this entry
    *moved("short", "SHORT_EXCESSES", entry=2),
    *moved("long", "LONG_EXCESSES", entry="oracle"),
    *moved("long", "LONG_EXCESSES", entry="linear"),
    *replaced(
        "bayes-long",
        "the Bayes predictor forgets with length as the oracle does",
        "_sampled_errors",
        lambda drawn: lambda *args: drawn(*args)[:, :, [0, 0, 2]],
    ),
)
