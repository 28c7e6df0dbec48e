"""The posterior is minimal: among representations that serve every label, none is coarser.

notation: K = 3 topics, V = 5 symbols of which the last two have proportional probabilities in all
topics (shares a and 1 - a), L = 6 tokens; X the tokens, N the counts, P the posterior.

All three keep the same information about the topic while their entropy falls, by amounts known in
closed form:

    I(z; X) = I(z; N) = I(z; P) = H(X) - L sum_z pi_z H(B_z)
    H(X) - H(N) = E log multinomial(N)          given the counts all orders are equally likely
    H(N) - H(P) = E H(Binomial(m, a))   given the posterior only the split of the m last-two symbols
        is open

with V^L, C(L+4, 4) and C(L+3, 3) cells. Merging any two posterior atoms costs p_i p_j/(p_i+p_j)
|post_i - post_j|^2 > 0 in summed Brier risk, so no coarser map is sufficient for all labels. For
ONE label the law of y given X is enough and may be coarser: with topics 1 and 2 mirror images of
each other and y the indicator of topic 0, the posterior has (L+1)(L+2)/2 atoms and the law of
y about half as many.

Routes: closed forms and combinatorics, against enumeration of sequences (KL form of the
information, regret of the merged representation).
"""

from __future__ import annotations

from math import comb

import numpy as np
from scipy.special import entr, gammaln, logsumexp
from scipy.stats import binom

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import exact_count, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Points
from attnscope.tasks.exchangeable.topics import Topics, count_vectors
from attnscope.theory.exchangeable.representation import (
    Atoms,
    Representation,
    all_sequences,
    merge_costs,
    posterior_atoms,
    representation,
)
from attnscope_claims.drawing import figure, panel

LENGTH, SHARE = 6, 0.35
NAMES = ("tokens", "counts", "posterior")
# What the statement says: numbers of values of NAMES at six tokens, and the least drop of entropy from
# one to the next, in nats.
VALUES = (15625, 210, 84)
DROP = 0.02
# both stated beforehand
SUM_ROUNDING = 1e-12
MERGE_ROUNDING = 1e-14
SUMS_WHY = "roundoff of sums of 15625 terms"
MASSES_WHY = "roundoff of differences of masses below 1"


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 4])
    four = rng.dirichlet(np.ones(4), size=3)
    B = np.concatenate([four[:, :3], SHARE * four[:, 3:], (1 - SHARE) * four[:, 3:]], axis=1)
    task = Topics(rng.dirichlet(np.full(3, 3.0)), B)
    seen = {name: representation(task, LENGTH, name) for name in NAMES}
    atoms = posterior_atoms(task, LENGTH)
    costs = merge_costs(atoms)
    pairs = np.triu_indices(len(atoms.mass), 1)
    some = rng.choice(len(pairs[0]), size=context.pick(40, 400), replace=False)
    i = pairs[0][some]
    j = pairs[1][some]
    merged = _merged_regrets(task, atoms, i, j)
    entropy = np.array([seen[name].entropy for name in NAMES])
    drops = entropy[:-1] - entropy[1:]
    comparisons = (
        worst(
            "information kept by tokens, counts, posterior",
            _information(task),
            [s.information for s in seen.values()],
            SUM_ROUNDING,
            SUMS_WHY,
            key="information",
        ),
        worst(
            "entropy, tokens minus counts",
            _order_entropy(task),
            drops[0],
            SUM_ROUNDING,
            SUMS_WHY,
            key="order",
        ),
        worst(
            "entropy, counts minus posterior",
            _split_entropy(task),
            drops[1],
            SUM_ROUNDING,
            SUMS_WHY,
            key="split",
        ),
        exact_count(
            f"steps on which the entropy falls by more than {DROP:g} nats",
            2,
            (drops > DROP).sum(),
            key="drops",
        ),
        exact_count(
            "number of values of tokens, counts, posterior, as stated",
            VALUES,
            [s.cells for s in seen.values()],
            key="values",
        ),
        worst(
            "cost of merging two atoms, all pairs, from risks",
            costs[pairs],
            _risk_differences(atoms)[pairs],
            MERGE_ROUNDING,
            MASSES_WHY,
            key="merge-risks",
        ),
        worst(
            "cost of merging two atoms, from merged sequences",
            costs[i, j],
            merged,
            MERGE_ROUNDING,
            MASSES_WHY,
            key="merge-sequences",
        ),
        exact_count(
            "pairs of atoms whose merging costs something",
            comb(len(atoms.mass), 2),
            (costs[pairs] > 0).sum(),
            key="merges",
        ),
        *_one_label(),
    )
    notes = (
        f"I = {seen['posterior'].information:.6f} nats for all three. "
        "Minimality is relative to all labels: "
        "for one label the law of that label may be coarser (last comparisons)."
    )
    return Evidence(comparisons, _figure(seen, costs[i, j], merged), notes)


def _information(task: Topics) -> float:
    """H(X) - H(X | z), with H(X) = -E log p(X) summed over counts."""
    c = np.concatenate(list(count_vectors(LENGTH, task.vocabulary, "exch-04")))
    log_p = logsumexp(task.log_joint(c), axis=1)
    weight = np.exp(gammaln(LENGTH + 1) - gammaln(c + 1.0).sum(axis=1) + log_p)
    return float(-weight @ log_p - LENGTH * task.prior @ entr(task.emissions).sum(axis=1))


def _order_entropy(task: Topics) -> float:
    """E log multinomial(N) = log L! - sum_x E log N_x!, with N_x binomial in each topic."""
    n = np.arange(LENGTH + 1)
    laws = binom.pmf(n[:, None, None], LENGTH, task.emissions)  # (n, K, V)
    return float(
        gammaln(LENGTH + 1) - task.prior @ np.einsum("nkv,n->k", laws, gammaln(n + 1.0))
    )


def _split_entropy(task: Topics) -> float:
    """E H(Binomial(m, share)), m binomial in each topic."""
    n = np.arange(LENGTH + 1)
    law = binom.pmf(n[:, None], LENGTH, task.emissions[:, 3:].sum(axis=1)) @ task.prior
    return float(law @ [entr(binom.pmf(np.arange(m + 1), m, SHARE)).sum() for m in n])


def _risk_differences(atoms: Atoms) -> np.ndarray:
    """Summed Brier risk sum_t p_t (1 - |post_t|^2), after minus before each merge."""
    p = atoms.mass
    joint = atoms.mass[:, None] * atoms.posterior
    before = p * np.sum(atoms.posterior**2, axis=1)
    together = np.sum((joint[:, None] + joint) ** 2, axis=-1) / (p[:, None] + p)
    return before[:, None] + before - together


def _merged_regrets(task: Topics, atoms: Atoms, i: np.ndarray, j: np.ndarray) -> list[float]:
    everything = all_sequences(task, LENGTH)
    which = np.argmin(
        np.abs(everything.posterior[:, None] - atoms.posterior).sum(axis=-1), axis=1
    )

    def merged(a: int, b: int) -> float:
        as_one = np.where(which == b, a, which)
        return representation(task, LENGTH, lambda _: as_one).regret

    return [merged(a, b) for a, b in zip(i, j)]


def _one_label() -> tuple[Comparison, ...]:
    """Topic 0 against the rest, topics 1 and 2 mirror images:
    what the law of y loses for that label, and for all.
    """
    L = 9
    indicator = np.array([1.0, 0.0, 0.0])
    task = Topics([0.4, 0.3, 0.3], [[0.25, 0.5, 0.25], [0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])
    law = lambda tokens: np.round(task.posterior(tokens)[:, 0], 10)  # P(y = 1 | X)
    one = representation(task, L, law, indicator)
    everything = representation(task, L, law)
    # what the law of y loses is how the rest of the mass divides between topics 1 and 2: equally,
    # by symmetry
    sequences = all_sequences(task, L)
    halves = (sequences.posterior[:, 1] - sequences.posterior[:, 2]) ** 2 / 2
    lost = float(sequences.probability @ halves)
    return (
        worst(
            "one label: regret of the law of y, that label",
            0.0,
            one.regret,
            1e-18,
            "the law of y is rounded to 1e-10, which costs its square; a hundred times that",
            scale=lost,
        ),
        worst(
            "one label: its regret over all labels",
            lost,
            everything.regret,
            SUM_ROUNDING,
            "roundoff of sums of 19683 terms",
        ),
    )


def _figure(
    seen: dict[str, Representation], formula: np.ndarray, measured: list[float]
) -> Figure:
    x = np.arange(3)
    sizes = (
        Points(x, [s.entropy for s in seen.values()], "entropy H(T)", 0),
        Points(x, [s.information for s in seen.values()], "information I(z; T)", 1),
    )
    low = [float(np.min(formula)), float(np.max(formula))]
    merges = (Line(low, low, "formula", 6), Points(formula, measured, "enumeration", 2))

    return figure(
        "Same information in less entropy; every further merge costs",
        panel(
            "what three representations keep",
            "representation T",
            "nats",
            *sizes,
            x_range=(-0.5, 2.5),
            y_range=(0.0, 1.1 * seen["tokens"].entropy),
            x_names=NAMES,
        ),
        panel(
            "merging two posterior atoms",
            "p p'/(p + p') |post - post'|^2",
            "regret of the merged map",
            *merges,
            log="xy",
        ),
    )


CLAIM = Claim(
    id="exch-04-minimal",
    title="The posterior is minimal among maps that serve all labels",
    statement=(
        "[Tokens, counts and posterior carry the same information about the latent](information).",
        "The entropy falls from one to the next, [first by the order of the tokens](order), [then by "
        "the split of two proportional symbols](split).",
        f"[Each step is more than {DROP:g} nats](drops).",
        f"[Six tokens have {VALUES[0]} values, their counts {VALUES[1]} and the posterior "
        f"{VALUES[2]}](values).",
        "[Merging two values of the posterior costs p_i p_j/(p_i + p_j) |post_i - post_j|^2 in "
        "summed Brier risk](merge-risks, merge-sequences).",
        "[The cost is positive for every pair](merges), so nothing coarser is sufficient for all "
        "labels.",
    ),
    headline="values",
    provenance=Provenance(
        "sharpened",
        ("B/minimal",),
        "the merge cost, the closed forms, and the condition",
    ),
    hypotheses=(
        "random topics, two symbols with proportional probabilities; minimality relative "
        "to all labels independent of X given z"
    ),
    routes=("closed forms and combinatorics", "enumeration of sequences"),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.Topics([0.5, 0.3, 0.2], [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])\n"
        "for name in ('tokens', 'counts', 'posterior', 'map'):\n"
        "    print(name, at.representation(task, 6, name))\n"
    ),
    condition=(
        "minimal among representations sufficient for all labels; for one label the law of "
        "that label can be coarser"
    ),
)
