"""Bayesian model averaging never does worse than the best latent by more than log(1/prior) in
total, on any sequence.

notation: p(x_l | x_<l) = sum_z P(z | x_<l) B_z(x_l) the one-step prediction, |Z| topics with prior
pi, t the number of tokens.

    regret(x) = 1/t [ -sum_l log p(x_l | x_<l) + max_z sum_l log B_z(x_l) ] <= log(1/pi(z*))/t
        = log|Z|/t for a uniform prior,

z* the best topic in hindsight; not on average but on every sequence, whether or not the model
produced it. The largest regret follows from the chain rule: total regret = log 1/pi(z*) - log(1 +
sum_{z != z*} pi_z p_z/(pi_z* p_z*)), so it is largest on the sequence that leaves the least doubt
about its topic.

Routes: the bound, and the chain-rule form over counts, against predictions made token by token on
all sequences (V^t of them) through the task's `predictive`, as attention would make them.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import exact_count, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Points
from attnscope.tasks.exchangeable.topics import Topics, count_vectors
from attnscope.theory.exchangeable.representation import all_sequences
from attnscope_claims.drawing import figure, panel

TOPICS, SYMBOLS = 3, 4
ROUNDING_TOLERANCE = 1e-12
CHAIN_WHY = "roundoff of a chain of eight logarithms"
CONCENTRATION = (
    # Dirichlet parameter of the emissions: topics distinct enough that the worst sequence nearly
    # reaches the bound
    0.5
)
NEAR_BOUND_SHARE = (
    0.025  # topics are drawn until the largest regret is within this share of the bound
)
ATTAINED_SHARE = 0.97  # stated: the largest regret over the bound is at least this


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 13])
    lengths = tuple(range(1, context.pick(8, 9)))
    task = _topics(rng, np.full(TOPICS, 1 / TOPICS), lengths[-1])
    skewed = Topics(rng.dirichlet(np.full(TOPICS, 2.0)), task.emissions)
    uniform, weighted = ([_regrets(t, length) for length in lengths] for t in (task, skewed))
    t = np.array(lengths)
    largest = np.array(
        [(total / length).max() for (total, _), length in zip(uniform, lengths)]
    )
    bound = np.log(TOPICS) / t
    by_counts = np.array([_largest_by_counts(task, length) / length for length in lengths])
    comparisons = (
        worst(
            f"largest regret over all sequences of {lengths[-1]} tokens",
            bound[-1],
            largest[-1],
            ROUNDING_TOLERANCE,
            CHAIN_WHY,
            key="largest",
            rule="at most",
        ),
        worst(
            f"largest regret of {lengths[-1]} tokens over the bound, as stated",
            ATTAINED_SHARE,
            largest[-1] / bound[-1],
            ROUNDING_TOLERANCE,
            CHAIN_WHY,
            key="attained",
            rule="at least",
        ),
        worst(
            "largest regret: chain rule over counts",
            by_counts,
            largest,
            ROUNDING_TOLERANCE,
            CHAIN_WHY,
            key="counts",
        ),
        exact_count(
            "sequences above the bound, uniform prior",
            0,
            [(total > np.log(TOPICS) + ROUNDING_TOLERANCE).sum() for total, _ in uniform],
            key="every",
            scale=SYMBOLS ** lengths[-1],
        ),
        exact_count(
            "sequences above the bound log 1/prior of the best topic",
            0,
            [(total > b + ROUNDING_TOLERANCE).sum() for total, b in weighted],
            key="prior",
            scale=SYMBOLS ** lengths[-1],
        ),
    )
    notes = (
        f"No sequence is above the bound; at t = {lengths[-1]} the largest regret is "
        f"{largest[-1]:.5f} of {bound[-1]:.5f} allowed."
    )
    return Evidence(comparisons, _figure(t, bound, largest, by_counts, uniform), notes)


def _topics(rng: np.random.Generator, prior: np.ndarray, length: int) -> Topics:
    """Random topics for which the bound is nearly attained at that length:
    otherwise it could be lowered unnoticed.
    """
    while True:
        B = (
            0.98 * rng.dirichlet(np.full(SYMBOLS, CONCENTRATION), size=TOPICS)
            + 0.02 / SYMBOLS
        )
        task = Topics(prior, B)
        if _largest_by_counts(task, length) > (1 - NEAR_BOUND_SHARE) * np.log(TOPICS):
            return task


def _regrets(task: Topics, length: int) -> tuple[np.ndarray, np.ndarray]:
    """(total regret, log 1/prior of the best topic) of every sequence,
    predictions made one token at a time.
    """
    x = all_sequences(task, length).tokens
    loss = np.zeros(len(x))
    for l in range(length):
        loss -= np.log(task.predictive(x[:, :l])[np.arange(len(x)), x[:, l]])
    likelihood = np.log(task.emissions)[:, x].sum(axis=2)  # (K, sequences)
    best = np.argmax(likelihood, axis=0)
    return loss + likelihood[best, np.arange(len(x))], -np.log(task.prior[best])


def _largest_by_counts(task: Topics, length: int) -> float:
    """max over counts of max_z log p_z - log sum_z pi_z p_z."""
    c = np.concatenate(list(count_vectors(length, task.vocabulary, "exch-13")))
    joint = task.log_joint(c)
    return float(
        np.max(np.max(joint - np.log(task.prior), axis=1) - logsumexp(joint, axis=1))
    )


def _figure(
    t: np.ndarray,
    bound: np.ndarray,
    largest: np.ndarray,
    by_counts: np.ndarray,
    regrets: list,
) -> Figure:
    mean = [float(np.mean(total / length)) for (total, _), length in zip(regrets, t)]

    return figure(
        "Model averaging is within log|Z| of the best topic on every sequence",
        panel(
            "regret per token, bound log|Z|/t",
            "tokens t",
            "regret (nats)",
            Line(t, bound, "bound", 0),
            Line(t, by_counts, "largest, chain rule", 1, dashed=True),
            Points(t, largest, "largest of all sequences", 1),
            Points(t, mean, "mean over sequences", 2),
            log="xy",
        ),
    )


CLAIM = Claim(
    id="exch-13-regret",
    title="Model-averaging regret is at most log|Z|/t on every sequence",
    statement=(
        "[Predicting each token from the posterior over topics loses at most log|Z|/t per token "
        "against the best topic in hindsight](largest).",
        "[The bound holds on every sequence of t tokens, not only on average](every).",
        "[With prior pi it is log(1/pi(z*))/t, where z* is the best topic](prior).",
        f"[It can be tight: one sequence of seven tokens loses at least {ATTAINED_SHARE:g} of "
        "it](attained).",
        "[The largest regret follows from the counts of symbols by the chain rule](counts).",
    ),
    headline="largest",
    provenance=Provenance(
        "sharpened",
        ("B2/corollary-4.2",),
        "the largest regret in closed form",
    ),
    hypotheses=(
        "three random topics over four symbols with positive probabilities, all sequences "
        "of 1 to 7 tokens"
    ),
    routes=("bound; chain rule over counts", "token by token predictions on all sequences"),
    check=check,
    snippet=(
        "import numpy as np\n"
        "import attnscope as at\n"
        "task = at.Topics([0.5, 0.5], [[0.8, 0.1, 0.1], [0.1, 0.3, 0.6]])\n"
        "x = np.zeros(20, dtype=int)\n"
        "loss = -sum(np.log(task.predictive(x[:l])[x[l]]) for l in range(20))\n"
        "print((loss + 20 * np.log(0.8)) / 20, np.log(2) / 20)\n"
    ),
)
