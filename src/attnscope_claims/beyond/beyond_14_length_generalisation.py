"""Trained on 16 tokens, tested on 4096: attention dilutes, and an inverse temperature that grows like
log L repairs it, if the token can be found at all.

notation: lam = the length of a trained key k (its inverse temperature), s the signal, w_J the informative
token's weight, L0 = 16 the training length.

Why it fails. The informative score is about lam s, the L - 1 others add up to about L exp(lam^2/2),
so w_J is near 1 only while log L < lam s - lam^2/2. Training at L0 stops raising lam when L0 tokens
are distinguished, so at fixed lam all L beyond exp(lam s - lam^2/2) are lost. What repairs it. lam ->
lam log L/log L0 makes both sides grow alike, as long as lam stays below s, where lam s - lam^2/2
has its maximum s^2/2. If s^2/2 is no more than log L, as at s = 4 and L = 4096, no inverse
temperature helps (the best one is in the notes), and log L overshoots.

Simplified predictor: the exact risk at the trained k, v at every length (at.risk) against sampled
sequences, drawn in the span of k*, v*, k, v (the same law, and cheap). Repaired predictors err in
one sequence of a hundred, so their risk is sampled as E[(T - Y)^2 | scores], which needs one number
a token. Block (layer norm, feed-forward,
register): its risk has no closed form, but the mean weight E w_J of its head has
(theory.risks.layer_norm), at every length, from the trained matrices; measured on sampled
sequences. (The blocks' risks are drawn too; at 4096 tokens 512 sequences show them to some 20 %
only, so no verdict rests on them.) A weight lies in [0, 1], so its variance is at most E w (1 - E
w): the tolerance is Z standard errors of that kind, which also holds where misses are rare.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import BAND, Z, exact_count, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.dynamics.networks.blocks import BlockHistory, simplified_risk, train_block
from attnscope.dynamics.networks.length_curves import at_length
from attnscope.figures.figure import Figure, Line, Mark, Points
from attnscope.predictors.attention import Softmax
from attnscope.predictors.blocks.compared_models import SimplifiedAttention
from attnscope.predictors.blocks.sequence_model import Parameters
from attnscope.predictors.blocks.transformer import TransformerBlock
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.optimum import optimal_inverse_temperature
from attnscope.theory.risks.layer_norm import informative_weight
from attnscope_claims.beyond.longer_sequences import (
    L0,
    LENGTHS,
    Curves,
    length_samples,
    logit_ratio,
    risk_given_scores,
    scaled_with_length,
    simplified_weights,
)
from attnscope_claims.drawing import legend, level, panel

# s^2/2 = 15 and 8; log 4096 = 8.3
STRONG_TASK = SingleLocation(32, L0, signal=5.5)
WEAK_TASK = SingleLocation(32, L0, signal=4.0)
# of the exact curves drawn
GRID = tuple(int(x) for x in np.unique(np.geomspace(L0, 2**17, 14).astype(int)))
# of the risk (of the weight, for blocks) that 4096 tokens cost at fixed inverse temperature, the
# share that counts as repair: runs win back 0.9 at s = 5.5, 0 at s = 4, 0.2 there at the best one
REPAIRED_SHARE = 0.5
# What else the statement says, of s = 5.5 and fixed inverse temperature: the simplified predictor's
# risk at 16 tokens (at most) and at 4096; the weight that a block loses at 4096 over what the
# simplified predictor loses (at most); the block's mean logit of the informative token over the
# simplified predictor's (at least).
SHORT_RISK, LONG_RISK = 0.001, 0.21
WEIGHT_LOST = 0.4
LOGIT_RATIO = 1.5
SCORE_BUDGET = 40_000_000  # scores drawn per length for the risk given scores
SAMPLED_ENTRY = legend()  # an entry for the legend


def check(context: Context) -> Evidence:
    runs = context.pick(3, 10)
    steps = context.pick(1500, 5000)
    sets = context.pick(
        {"strong": 12, "weak": 2, "block": 2}, {"strong": 50, "weak": 12, "block": 12}
    )  # of 256 sequences of 4096 tokens
    seeds = [
        int(x) for x in np.random.default_rng([context.seed, 714]).integers(2**31, size=8)
    ]
    histories = {
        name: _train_model(name, steps, runs, seed)
        for name, seed in zip(("strong", "weak", "block"), seeds)
    }
    strong, weak, blocks = histories.values()
    curves = {
        name: length_samples(h, sets[name], seeds[3] + i)
        for i, (name, h) in enumerate(histories.items())
    }
    found = {
        (name, sharp): curves[name][sharp] for name in histories for sharp in (False, True)
    }
    exact = {
        (name, sharp): _exact_excess(h, sharp, LENGTHS)
        for name, h in (("strong", strong), ("weak", weak))
        for sharp in (False, True)
    }
    weights = {sharp: _weights(blocks, sharp, LENGTHS) for sharp in (False, True)}
    best = [_best_excess(task) for task in (STRONG_TASK, WEAK_TASK)]
    common = slice(1, None)  # lengths at which errors are common enough to be sampled
    # at log L they are rarer: the risk given scores needs only the scores to be sampled
    given = {
        name: risk_given_scores(h, True, LENGTHS[1:], context.pick(1, 4) * SCORE_BUDGET, seed)
        for (name, h), seed in zip((("strong", strong), ("weak", weak)), seeds[6:])
    }
    short, _, long = exact["strong", False].T
    lost = 1 - weights[False][:, -1].min(), 1 - simplified_weights(strong, 4096).max()
    comparisons = (
        *(
            sampled(
                f"simplified, s = {s}, {_words(False)}: risk",
                exact[name, False][:, common],
                found[name, False].excess[:, common],
                found[name, False].error[:, common],
                key=f"curve-{name}",
            )
            for name, s in (("strong", 5.5), ("weak", 4))
        ),
        *(
            sampled(
                f"simplified, s = {s}, {_words(True)}: risk",
                exact[name, True][:, common],
                *given[name],
                key=f"log-{name}",
            )
            for name, s in (("strong", 5.5), ("weak", 4))
        ),
        *(
            _compare_weight(
                f"block, {_words(sharp)}: weight of the informative token",
                weights[sharp],
                found["block", sharp],
                "block-log" if sharp else "block-curve",
            )
            for sharp in (False, True)
        ),
        *_repairs(found, best[1]),
        worst(
            "simplified, s = 5.5: exact risk at 16 tokens, as stated",
            SHORT_RISK,
            short,
            1e-4,
            "the spread of trained keys over the runs of one seed",
            rule="at most",
            routes=("stated", "exact risks at the trained vectors"),
            key="short",
        ),
        worst(
            "simplified, s = 5.5: exact risk at 4096 tokens, as stated",
            LONG_RISK,
            long,
            0.03,
            "the spread of trained keys: runs of one seed differ by 0.02",
            routes=("stated", "exact risks at the trained vectors"),
            key="long",
        ),
        worst(
            "largest weight lost by a block at 4096 over the least by a simplified predictor",
            WEIGHT_LOST,
            lost[0] / lost[1],
            0.05,
            "the spread of trained sizes over seeds",
            key="less",
            rule="at most",
            routes=("stated", "exact mean weights from the trained models"),
        ),
        worst(
            "mean logit of the informative token, least block over mean simplified predictor",
            LOGIT_RATIO,
            logit_ratio(blocks, strong, seeds[5]),
            0.1,
            "the spread of trained sizes over seeds",
            key="logits",
            rule="at least",
            routes=("stated", "logits of the trained models on sampled sequences"),
        ),
    )
    ours = found["block", False].excess.mean(axis=0), found["block", True].excess.mean(axis=0)
    notes = (
        f"The blocks had {ours[0][0]:.4f} at 16 tokens; at 4096 their mean weight on the "
        f"informative token is {weights[False][:, -1].mean():.3f} at a fixed inverse temperature "
        f"and {weights[True][:, -1].mean():.3f} with log L."
    )
    figure = _figure(strong, weak, blocks, found)
    return Evidence(comparisons, figure, notes)


def _train_model(name: str, steps: int, runs: int, seed: int) -> BlockHistory:
    task = WEAK_TASK if name == "weak" else STRONG_TASK
    model = (TransformerBlock if name == "block" else SimplifiedAttention)(task.dim)
    return train_block(
        task, model, steps, seed=seed, runs=runs, log_every=steps, progress=False
    )


def _words(sharp: bool) -> str:
    return "log L temperature" if sharp else "fixed temperature"


def _exact_excess(history: BlockHistory, sharp: bool, lengths: tuple[int, ...]) -> np.ndarray:
    """(runs, lengths) exact excess of simplified predictors."""

    def risk(p: Parameters, length: int) -> float:
        model = scaled_with_length(history.model, sharp, length)  # type: ignore[arg-type]
        return simplified_risk(at_length(history.task, length), model, p).excess  # type: ignore[arg-type]

    return np.array([[risk(p, length) for length in lengths] for p in history.parameters])


def _weights(history: BlockHistory, sharp: bool, lengths: tuple[int, ...]) -> np.ndarray:
    """(runs, lengths) exact mean weight of the informative token in blocks."""

    def weight(p: Parameters, length: int) -> float:
        model = scaled_with_length(history.model, sharp, length)  # type: ignore[arg-type]
        return informative_weight(history.task, model, p, length).value  # type: ignore[arg-type]

    return np.array([[weight(p, length) for length in lengths] for p in history.parameters])


def _compare_weight(what: str, exact: np.ndarray, found: Curves, key: str) -> Comparison:
    return worst(
        what,
        exact,
        found.weight[:, :, 0],
        Z * np.sqrt(exact * (1 - exact) / found.samples),
        "5 standard errors, variance at most E w (1 - E w) for a weight in [0, 1]; 6e-7 an entry",
        key=key,
    )


def _repairs(found: dict[tuple[str, bool], Curves], best: float) -> tuple[Comparison, ...]:
    """Runs in which log L (or, at s = 4, the best inverse temperature) wins REPAIRED_SHARE of the
    loss back: of the risk at 4096 less that at 16, for blocks of the weight.
    """
    risk = {key: c.excess[:, -1] - c.excess[:, 0] for key, c in found.items()}
    block = {sharp: 1 - found["block", sharp].weight[:, -1, 0] for sharp in (False, True)}
    least = best - found["weak", False].excess[:, 0]
    n = len(least)
    rows = (
        (
            "repair-simplified",
            "simplified, s = 5.5: runs repaired by log L",
            n,
            risk["strong", True],
            risk["strong", False],
        ),
        (
            "repair-block",
            "block, s = 5.5: runs repaired by log L",
            n,
            block[True],
            block[False],
        ),
        (
            "weak-log",
            "simplified, s = 4: runs repaired by log L",
            0,
            risk["weak", True],
            risk["weak", False],
        ),
        (
            "weak-any",
            "simplified, s = 4: runs repaired by any temperature",
            0,
            least,
            risk["weak", False],
        ),
    )
    why = "an exact count; repaired: half of what 4096 tokens cost is won back"
    won = lambda left, lost: int(np.sum(left <= (1 - REPAIRED_SHARE) * lost))
    return tuple(
        exact_count(what, p, won(*pair), key=key, why=why, scale=n)
        for key, what, p, *pair in rows
    )


def _best_excess(task: SingleLocation) -> float:
    """Exact excess at 4096 of k*, v* at the best inverse temperature."""
    return float(optimal_inverse_temperature(at_length(task, 4096), Softmax)[1].excess)


def _figure(
    strong: BlockHistory,
    weak: BlockHistory,
    blocks: BlockHistory,
    found: dict[tuple[str, bool], Curves],
) -> Figure:
    axis = "test length L"
    weights: list[Mark] = []
    for sharp, color in ((False, 0), (True, 1)):
        c = found["block", sharp]
        lines = _weights(blocks, sharp, GRID)
        weights += [
            Line(GRID, w, "" if i else _words(sharp), color, thin=True)
            for i, w in enumerate(lines)
        ]
        half = BAND * np.sqrt(
            np.maximum(c.weight[:, :, 0] * (1 - c.weight[:, :, 0]), 0) / c.samples
        )
        weights += [Points(LENGTHS, w, "", color, e) for w, e in zip(c.weight[:, :, 0], half)]

    return Figure(
        "Trained at 16 tokens, tested at more (lines exact)",
        (
            *(
                panel(
                    f"simplified, s = {history.task.signal:g}, middle run",
                    axis,
                    "excess risk",
                    *_risks(name, history, found),
                    log="xy",
                )
                for name, history in (("strong", strong), ("weak", weak))
            ),
            panel(
                f"block, s = 5.5, {blocks.runs} runs",
                axis,
                "mean informative weight",
                *weights,
                SAMPLED_ENTRY,
                log="x",
                y_range=(0, 1.05),
            ),
        ),
        columns=3,
    )


def _risks(
    name: str, history: BlockHistory, found: dict[tuple[str, bool], Curves]
) -> tuple[Mark, ...]:
    """Exact lines and sampled points of the middle run of simplified predictors."""
    middle = int(np.argsort(found[name, False].excess[:, -1])[history.runs // 2])
    one = replace(history, parameters=(history.parameters[middle],))
    marks: list[Mark] = []
    for sharp, color in ((False, 0), (True, 1)):
        c = found[name, sharp]
        marks.append(Line(GRID, _exact_excess(one, sharp, GRID)[0], _words(sharp), color))
        marks.append(Points(LENGTHS, c.excess[middle], "", color, BAND * c.error[middle]))
    bayes = [at_length(history.task, length).bayes_risk().excess for length in GRID]
    return (
        *marks,
        Line(GRID, bayes, "Bayes", 3),
        level(GRID, 0.5, "null"),
        SAMPLED_ENTRY,
    )


CLAIM = Claim(
    id="beyond-14-length-generalisation",
    title="Attention trained short dilutes when long; log L repairs",
    statement=(
        "[Trained on 16 tokens at s = 5.5, simplified attention has a risk of at most "
        f"{SHORT_RISK:g}](short).",
        f"[At the same inverse temperature it is {LONG_RISK:g} on 4096 tokens](long).",
        "[The weight of the informative token is diluted along an exactly known curve, for the "
        "simplified predictor](curve-strong, curve-weak) and [for a layer-normed Transformer "
        "block](block-curve).",
        f"[The block loses at most {WEIGHT_LOST:g} of the weight that the simplified predictor "
        f"loses](less), and [its logits train to at least {LOGIT_RATIO:g} times the size](logits).",
        "[Where the signal allows it (s^2/2 well above log L), multiplying logits by log L/log 16 "
        f"wins back more than {REPAIRED_SHARE:g} of the risk that 4096 tokens cost](repair-simplified).",
        f"[In a block it wins back more than {REPAIRED_SHARE:g} of the weight](repair-block).",
        "[At s = 4 it does not](weak-log), and [no inverse temperature does](weak-any).",
    ),
    headline="repair-simplified",
    provenance=Provenance(
        "new here",
        ("A/blocks",),
        "dilution at other lengths, and the repair",
    ),
    hypotheses=(
        "d = 32, gamma^2 = 1/2, trained by Adam on fresh sequences of 16 tokens; s = 5.5 "
        "and s = 4; test lengths 16 to 4096"
    ),
    condition=(
        "repair needs a token that can be distinguished from L others, s^2/2 > log L, and "
        "inverse temperatures that stay below s"
    ),
    routes=(
        "exact risk and exact mean weight from the trained vectors and matrices",
        "trained models on sampled sequences",
    ),
    rests_on=("beyond-01-softmax-is-bayes",),
    check=check,
    snippet=(
        "from dataclasses import replace\n"
        "from math import log\n"
        "import attnscope as at\n"
        "task, model = at.SingleLocation(32, 16, signal=5.5), at.SimplifiedAttention(32)\n"
        "p = at.train_block(task, model, steps=1500, log_every=1500, "
        "progress=False).parameters[0]\n"
        "for L in (16, 256, 4096):\n"
        "    longer = at.SingleLocation(32, L, signal=5.5)\n"
        "    sharp = replace(model, inverse_temperature=log(L) / log(16))\n"
        "    print(L, at.simplified_risk(longer, model, p).excess, at.simplified_risk(longer, "
        "sharp, p).excess)\n"
    ),
)
