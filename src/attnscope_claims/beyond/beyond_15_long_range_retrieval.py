"""Retrieval over long ranges: simplified attention, a Transformer block, a gated recurrent unit and
a fully connected net, on the same budget.

All are trained on the same law (32 tokens, one informative) by the same optimiser for the same
number of fresh sequences; block, recurrent unit and dense net have the same number of parameters to
a few per cent, the simplified predictor 2 d. Then the needle is put among up to 4096 tokens.

    dense net   one weight per position and coordinate: not below the best linear risk, which is
        exact, by more than the sampling error (10 %);
                 and no other length at all
    recurrent   as good as attention at its training length (better than the block, which has the
        floor below); beyond it the risk
                 rises (why was not studied), and at 4096 it is no better than predicting the mean
                 (exact null risk), or worse
    attention   dilutes but retrieves. Simplified: exact risk at its trained k, v at every length.
        Block: never below the floor of layer norm
                 (theory.risks.layer_norm), lower than the simplified one at 4096; its logits also
                 train larger (seen at d = 32; not shown to be the cause)

The simplified predictor has one more weakness: from some starts Adam ends with the roles swapped
(key along v*, value along k*), risk .35. At 16 tokens 9 of 60 runs did so, none of 32 blocks. The
exact risk holds for these too; the comparison with the block leaves them out. That comparison is
one of budgets: with STEPS = 4000 and ten runs the simplified predictor's key has grown, and at 4096
tokens its eight runs at the oracle risk .07 to .11, the blocks .11 to .12. Nothing else changes
with the longer training: recurrent .72 to .90, dense .47.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import BAND, Z, exact_count, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.dynamics.networks.blocks import BlockHistory, simplified_risk, train_block
from attnscope.dynamics.networks.length_curves import at_length, length_curves
from attnscope.figures.figure import Figure, Line, Mark, Points
from attnscope.predictors.blocks.compared_models import (
    DenseNet,
    GatedRecurrent,
    SimplifiedAttention,
)
from attnscope.predictors.blocks.sequence_model import SequenceModel
from attnscope.predictors.blocks.transformer import TransformerBlock
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.risks.layer_norm import layer_norm_floor
from attnscope_claims.drawing import figure, legend, level, panel

TASK = SingleLocation(dim=16, length=32, signal=5.0)
LENGTHS = (32, 512, 4096)
STEPS = 1000  # the budget is part of the claim: more runs with --full, not more steps
# standard errors by which an order of risks must show; the differences counted are 4 or more
SURE_ERRORS = 2.0
ALL_RUNS_WHY = "an exact count, orders judged by 2 standard errors: one run less breaks it"
# |cosine of the key with k*| below which a simplified run counts as not at the oracle; swapped runs
# are near .2
SWAPPED_COSINE = 0.5
# What the statement says: the share of the label's variance that the simplified predictor loses at
# 4096 tokens, and the share of the null risk below which the blocks stay.
LOST_SHARE = 0.5
BLOCK_SHARE = 0.5
GRID = tuple(int(x) for x in np.unique(np.geomspace(32, 2**15, 11).astype(int)))


class Tested(NamedTuple):
    """(runs, lengths) each."""

    excess: np.ndarray
    error: np.ndarray


def check(context: Context) -> Evidence:
    runs = context.pick(3, 10)
    steps = STEPS
    seeds = [
        int(x) for x in np.random.default_rng([context.seed, 715]).integers(2**31, size=8)
    ]
    block = TransformerBlock(TASK.dim)
    models: dict[str, SequenceModel] = {
        "simplified": SimplifiedAttention(TASK.dim),
        "block": block,
        "recurrent": GatedRecurrent.matching(block),
        "dense": DenseNet.matching(block, TASK.length),
    }
    trained = {
        name: _train_model(model, steps, runs, seed)
        for (name, model), seed in zip(models.items(), seeds)
    }
    long = _test_models(
        {name: h for name, h in trained.items() if name != "dense"},
        context.pick(1, 4),
        seeds[5],
    )
    exact = _exact_excess(trained["simplified"], LENGTHS)
    floor = layer_norm_floor(TASK).excess
    references = trained["block"].references
    oracle = _at_oracle(trained["simplified"])
    dense, recurrent, block_end = (
        Tested(trained[name].excess[:, -1], trained[name].error[:, -1])
        for name in ("dense", "recurrent", "block")
    )
    comparisons = (
        # at the training length the loss is made of rare misses, which are not compared in standard
        # errors
        sampled(
            "simplified: risk at 512 and 4096 tokens",
            exact[:, 1:],
            long["simplified"].excess[:, 1:],
            long["simplified"].error[:, 1:],
            key="curve",
        ),
        worst(
            "simplified runs at the oracle: exact risk at 4096 over the label's variance",
            LOST_SHARE,
            exact[oracle, -1] / references["null"],
            0.1,
            "the spread of trained keys: runs of one seed differ by 0.04",
            routes=("stated", "exact risks at the trained vectors"),
            key="lost",
        ),
        sampled(
            "dense net: risk at 32 tokens against the best linear one",
            references["linear"],
            *dense,
            key="dense",
        ),
        exact_count(
            "recurrent units at 32 tokens with a risk below every block's",
            runs,
            (recurrent.excess + SURE_ERRORS * recurrent.error < block_end.excess.min()).sum(),
            key="recurrent",
            why=ALL_RUNS_WHY,
        ),
        _not_below(
            "dense net: not below the best linear risk",
            references["linear"],
            trained["dense"],
        ),
        _not_below("block: not below the floor of layer norm", floor, trained["block"]),
        exact_count(
            "recurrent units at 4096 no better than the mean",
            runs,
            _count(long["recurrent"], references["null"], above=True),
            key="recurrent-long",
            why=ALL_RUNS_WHY,
        ),
        exact_count(
            "blocks at 4096 below half the null risk",
            runs,
            _count(long["block"], BLOCK_SHARE * references["null"], above=False),
            key="block",
            why=ALL_RUNS_WHY,
        ),
        exact_count(
            "simplified runs at the oracle whose exact risk at 4096 is above every block's",
            oracle.sum(),
            (
                exact[oracle, -1]
                > (long["block"].excess + SURE_ERRORS * long["block"].error)[:, -1].max()
            ).sum(),
            key="above-blocks",
            why=ALL_RUNS_WHY,
        ),
    )
    notes = (
        f"At {TASK.length} tokens linear {references['linear']:.3f}, null {references['null']:.2f}, "
        f"floor of layer norm {floor:.4f}, Bayes {references['bayes']:.5f}. Simplified runs at the "
        f"oracle: {int(oracle.sum())} of {runs}."
    )
    return Evidence(
        comparisons, _figure(trained["simplified"], long, references["null"]), notes
    )


def _train_model(model: SequenceModel, steps: int, runs: int, seed: int) -> BlockHistory:
    every = steps // 10
    return train_block(
        TASK, model, steps, runs=runs, seed=seed, log_every=every, progress=False
    )


def _test_models(
    histories: dict[str, BlockHistory], repeats: int, seed: int
) -> dict[str, Tested]:
    """Every run of every model on the same sequences, `repeats` sets of them pooled."""
    cases = [(h.model, p) for h in histories.values() for p in h.parameters]
    parts = [length_curves(TASK, cases, LENGTHS, 1024, seed + i) for i in range(repeats)]
    # (repeats, cases, lengths)
    means = np.array([[curve.excess for curve in part] for part in parts])
    errors = np.array([[curve.error for curve in part] for part in parts])
    excess = means.mean(0)
    error = np.sqrt((errors**2).mean(0) / repeats)
    ends = np.cumsum([h.runs for h in histories.values()])[:-1]
    return {
        name: Tested(*pair)
        for name, *pair in zip(histories, np.split(excess, ends), np.split(error, ends))
    }


def _exact_excess(history: BlockHistory, lengths: tuple[int, ...]) -> np.ndarray:
    """(runs, lengths) exact excess of simplified predictors."""
    risk = lambda p, L: simplified_risk(at_length(TASK, L), history.model, p).excess  # type: ignore[arg-type]
    return np.array([[risk(p, length) for length in lengths] for p in history.parameters])


def _at_oracle(history: BlockHistory) -> np.ndarray:
    """(runs,) whether a simplified predictor's key ended along k*."""
    return np.abs(history.watched["key_alignment"][:, -1, 0]) > SWAPPED_COSINE


def _not_below(what: str, bound: float, history: BlockHistory) -> Comparison:
    i = int(np.argmin(history.excess[:, -1]))
    return worst(
        what,
        bound,
        history.excess[i, -1],
        Z * history.error[i, -1],
        "5 standard errors of the test batch, one-sided: 3e-7 a run",
        rule="at least",
    )


def _count(tested: Tested, level: float, above: bool) -> int:
    """Runs whose risk at the longest length is not below the level, or surely below it."""
    gap = tested.excess[:, -1] - level
    room = SURE_ERRORS * tested.error[:, -1]
    return int((gap > -room).sum() if above else (gap < -room).sum())


def _figure(simplified: BlockHistory, long: dict[str, Tested], null: float) -> Figure:
    grid = _exact_excess(simplified, GRID)
    oracle = _at_oracle(simplified)
    curves: list[Mark] = []
    for label, use in (("at the oracle", oracle), ("roles swapped", ~oracle)):
        curves += [
            Line(GRID, row, "" if i else f"simplified, {label}", 0, use is not oracle)
            for i, row in enumerate(grid[use])
        ]
    for color, (name, t) in enumerate(long.items()):
        # models side by side
        x = np.tile(LENGTHS, len(t.excess)) * 1.12**color
        label = "" if name == "simplified" else name
        curves.append(Points(x, t.excess.ravel(), label, color, BAND * t.error.ravel()))
    longer = panel(
        "longer sequences (lines exact, each run)",
        "test length L",
        "excess risk",
        *curves,
        level(GRID, null, "null"),
        legend(),
        log="xy",
    )
    return figure("Long-range retrieval on one budget", longer)


CLAIM = Claim(
    id="beyond-15-long-range-retrieval",
    title="Only attention retrieves one token out of 4096",
    statement=(
        "[Trained at 32 tokens with the same budget, a fully connected net of a block's size stays at "
        "the risk of the best linear predictor](dense).",
        "[A gated recurrent unit does better than the block at this length](recurrent), but [on 4096 "
        "tokens it is no better than predicting the mean](recurrent-long).",
        f"[On 4096 tokens the simplified predictor loses {LOST_SHARE:g} of the label's variance by "
        "dilution](lost), [along its exact curve](curve).",
        f"[The Transformer block stays below {BLOCK_SHARE:g} of the null risk](block), [and below the "
        "simplified predictor](above-blocks).",
    ),
    headline="block",
    provenance=Provenance(
        "new here",
        ("G/selection",),
        "retrieval out of 4096 tokens",
    ),
    hypotheses=(
        "d = 16, s = 5, gamma^2 = 1/2, 1000 Adam steps on batches of 64 fresh sequences, "
        "about 2200 parameters (simplified: 32)"
    ),
    condition=(
        "this budget and size: after 4000 steps the simplified predictor dilutes less than the "
        "block (risk at 4096 tokens .07-.11 against .11-.12); "
        "some simplified runs (9 of 60 at 16 tokens) end with the roles swapped and retrieve at no "
        "length"
    ),
    routes=(
        "exact risks: trained overlaps, best linear, null, floor of layer norm",
        "trained models on sampled sequences",
    ),
    rests_on=(
        "slr-03-linear-and-dense-fail",
        "beyond-01-softmax-is-bayes",
        "beyond-13-block-recovers",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.SingleLocation(dim=16, length=32, signal=5.0)\n"
        "block = at.TransformerBlock(dim=16)\n"
        "for model in (block, at.GatedRecurrent.matching(block)):\n"
        "    run = at.train_block(task, model, steps=300, log_every=300, progress=False)\n"
        "    print(model.size, at.length_curve(task, model, run.parameters[0], (32, 1024), "
        "samples=512).excess)\n"
    ),
)
