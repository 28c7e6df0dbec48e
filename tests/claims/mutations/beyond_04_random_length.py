"""What makes the sentences of beyond-04 false."""

from dataclasses import replace

from helpers.mutation import moved, replaced

from attnscope.predictors.attention import Softmax
from attnscope.tasks.planted.random_length import RandomLength

KEEP = ("_least_linear", "_figure", "optimal_inverse_temperature")


def _concave(risk):
    """A risk that falls by 1 % where the lengths spread."""

    def lower(task, head, overlaps):
        found = risk(task, head, overlaps)
        spread = isinstance(task, RandomLength) and len(set(task.lengths)) > 1
        return (
            found
            if not spread or isinstance(head, Softmax)
            else replace(found, value=0.99 * found.value)
        )

    return lower


MUTATIONS = (
    *replaced(
        "activation", "the risk of an activation is concave in the length", "risk", _concave
    ),
    *replaced("erf", "the risk of erf is concave in the length", "risk", _concave),
    *replaced("spread", "the risk of an activation falls with the spread", "risk", _concave),
    *moved("spread", "BEST_ACTIVATION"),
    *replaced(
        "linear",
        "linear attention adapts to the lengths",
        "_least_linear",
        lambda least: lambda task: 0.99 * least(task),
    ),
    *moved("linear-number", "BEST_LINEAR"),
    *replaced(
        "softmax",
        "the inverse temperature is s^2",
        "_softmax",
        lambda softmax: lambda: Softmax(softmax().inverse_temperature ** 2),
    ),
    *replaced(
        "every",
        "the inverse temperature is s^2",
        "_softmax",
        lambda softmax: lambda: Softmax(softmax().inverse_temperature ** 2),
    ),
    *moved("gain", "SOFTMAX_SPREAD"),
    *moved("gain", "SOFTMAX_FIXED"),
    *replaced(
        "gain",
        "the lengths do not spread",
        "SPREAD",
        lambda spread: 0,
    ),
)

REBUILT = dict.fromkeys(
    (
        "sampled, masked: softmax",
        "sampled, masked: best activation",
        "sampled, masked: erf",
        "sampled, masked: best linear",
    ),
    "left out: no sentence names it",
)
