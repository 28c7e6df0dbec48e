"""What makes the sentences of exch-18 false."""

import numpy as np
from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_sampled_marks",)
REBUILT = {
    "distance of k marks to independent ones": DROPPED,
    "excess risk of softmax attention": "8 times as many sequences at L = 2, where errors are rare",
}


def _early_locations(marks):
    """The first location is half as likely again as the others."""

    def drawn(L, n, seed):
        covariance, share = marks(L, n, seed)
        share = share * (1 + 0.5 * (np.arange(L) == 0))
        return covariance, share / share.sum()

    return drawn


def _independent_marks(marks):
    def drawn(L, n, seed):
        (_, error), share = marks(L, n, seed)
        return (0.0, error), share

    return drawn


def _reversed(attention):
    """Rows of the shortest length for the longest: the excess falls with L."""
    lengths = []

    def drawn(task, n, seed):
        excess, mass, gap = attention(task, n, seed)
        lengths.append(excess)
        return (1 / len(lengths), excess[1]), mass, gap

    return drawn


def _sharper(task):
    class Sharper(task):
        def location_error(self):
            return task(4 * self.dim, self.length, gamma=1.0).location_error()

    return Sharper


def _other(part):
    """The measured mean of one part is 1.5 times as large."""

    def change(attention):
        def drawn(*args):
            found = list(attention(*args))
            found[part] = (1.5 * found[part][0], found[part][1])
            return tuple(found)

        return drawn

    return change


MUTATIONS = (
    *replaced(
        "exchangeable", "the first location is likelier", "_sampled_marks", _early_locations
    ),
    *replaced("covariance", "marks are independent", "_sampled_marks", _independent_marks),
    *replaced(
        "extension", "marks are independent", "_exact_covariance", lambda f: lambda L: 0.0
    ),
    *replaced(
        "attention",
        "attention with half the score",
        "softmax_attention",
        lambda attend: lambda query, *rest, **named: attend(0.5 * query, *rest, **named),
    ),
    *replaced("location", "a posterior of twice the signal", "SingleLocation", _sharper),
    *replaced("excess", "errors half as large again", "_attention", _other(0)),
    *replaced("mass", "weights on other tokens half as large again", "_attention", _other(1)),
    *replaced("increases", "longer sequences are easier", "_attention", _reversed),
    *moved("stated", "EXCESS", entry=0, by=0.05),
    *moved("stated", "EXCESS", entry=1),
)
