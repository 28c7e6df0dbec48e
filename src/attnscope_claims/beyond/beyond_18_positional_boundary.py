"""Where attention over two tokens turns from what they say to where they stand: the borders of the
diagram by two routes.

notation: of positional_integrals.py; w the share of the target that is positional, c its contrast,
A = S(2 c^2).

Checks at mixes w, each for the contrast c at a border. (1) Lead: the semantic minimum (e, m) =
(0, 1) and the positional one (P, 0) have one loss. (2), (3) Each of the two stops being a minimum.
Predicted: straight lines in A from integrals in two dimensions (Stein's identities, no series).
Measured: positional_phases, which minimises over the whole set, cell by cell, narrowed to CELLS^-3
of [0, 3]. (4) On drawn tokens at the border of the lead the difference of both losses is 0. (5) The
measured borders lie on straight lines in (1/w, A). (6) Between the two minima the loss has a barrier:
its height by trapezoidal sums in four dimensions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import mean_and_error, sampled, stated, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.figures.figure import Figure, Line, Mark, Points
from attnscope.tasks.planted.positional_semantic import PositionalSemantic
from attnscope.theory.positional_semantic.phases import PositionalPhases, positional_phases
from attnscope_claims.beyond.positional_integrals import (
    contrast_of,
    ends,
    lead,
    loss,
    stable,
    trapezoidal,
)
from attnscope_claims.drawing import figure, legend, panel

NODES = trapezoidal(0.1)  # exact to rounding: halved, nothing moves by more than 1e-13
# mixes of each border, all of whose contrasts are in [0, 3]
LEAD_MIXES = np.array([0.62, 0.66, 0.7, 0.74, 0.78, 0.82, 0.86, 0.9, 0.94])
SEMANTIC_MIXES = np.array([0.78, 0.82, 0.86, 0.9, 0.94])
POSITIONAL_MIXES = np.array([0.42, 0.5, 0.58, 0.66, 0.74, 0.82, 0.9])
BORDER_MIXES = (LEAD_MIXES, SEMANTIC_MIXES, POSITIONAL_MIXES)
BORDERS = ("one loss at both", "semantic minimum ends", "positional minimum begins")
DRAWN_MIXES = (0.62, 0.7, 0.82, 0.94)  # mixes of drawn tokens
# What the statement says, for a share w = STATED_MIX: the contrasts where the positional minimum
# begins, where both have one loss and where the semantic minimum ends; and at w = .7 the height of
# the barrier over the common loss.
STATED_MIX = 0.82
CONTRASTS = (0.8073, 0.8912, 1.0592)
BARRIER = 0.0118
BARRIER_ANGLE = (
    0.663  # angle from the semantic end at which the loss along the arc is largest
)
STRAIGHT_TOLERANCE = 1e-5  # of A: three widths of the last cell times dA/dc < 1
CELLS = 100
WIDEST_CONTRAST = 3.0
DIM = 20
KEYS = ("lead", "semantic", "positional")
CELL_WHY = "width of the last cell of the diagram, 3/100^3; both routes are exact to 1e-10"


def check(context: Context) -> Evidence:
    semantic, _ = stable(SEMANTIC_MIXES, NODES, 1.0)
    _, positional = stable(POSITIONAL_MIXES, NODES, 1.0)
    predicted = [
        contrast_of(a) for a in (lead(LEAD_MIXES, ends(NODES, 1.0)), semantic, positional)
    ]
    measured = _borders_by_diagram()
    width = WIDEST_CONTRAST / CELLS**3
    n = context.pick(100_000, 2_000_000)
    rng = np.random.default_rng([context.seed, 818])
    drawn = np.array([_sampled_loss_difference(w, n, rng) for w in DRAWN_MIXES])
    comparisons = (
        *(
            worst(
                f"c where {name}" if i else "c with one loss at both",
                p,
                m,
                width,
                CELL_WHY,
                key=key,
            )
            for i, (key, name, p, m) in enumerate(zip(KEYS, BORDERS, predicted, measured))
        ),
        sampled(
            "loss at (0, 1) less loss at (P, 0), drawn tokens",
            0.0,
            *drawn.T,
            key="drawn",
            scale=BARRIER,
        ),
        Series(
            "stated",
            f"contrasts of the three borders at w = {STATED_MIX:g}, as stated",
            range(3),
            CONTRASTS,
            [measured[i][BORDER_MIXES[i] == STATED_MIX][0] for i in (2, 0, 1)],
            5e-5 + width,
            why="half a printed digit and the width of a cell",
            routes=("stated", "lowest minimum over the whole set"),
        ),
        worst(
            "distance of the measured borders from straight lines in (1/w, A)",
            0.0,
            [_bend(w, c) for w, c in zip(BORDER_MIXES, measured)],
            STRAIGHT_TOLERANCE,
            "three widths of the last cell, 3/100^3, times dA/dc < 1",
            key="straight",
            scale=0.1,
        ),
        stated(
            "barrier",
            "barrier between both minima at w = .7, as stated",
            BARRIER,
            _barrier(),
            1e-4,
            by="trapezoidal sums in four dimensions",
        ),
    )
    notes = (
        "Semantic and positional minima exchange the lead at one loss, with a barrier between "
        "them: a discontinuous transition. The definition and its constants are ours."
    )
    return Evidence(comparisons, _figure(measured), notes)


def _borders_by_diagram() -> list[np.ndarray]:
    """Contrasts of the three borders at LEAD_MIXES, SEMANTIC_MIXES and POSITIONAL_MIXES, by the diagram."""
    rules: tuple[Callable[[PositionalPhases], np.ndarray], ...] = (
        lambda found: found.phase == 0,
        lambda found: found.semantic_stable,
        lambda found: ~found.positional_stable,
    )
    return [
        np.array([_border_contrast(w, rule) for w in mixes])
        for mixes, rule in zip(BORDER_MIXES, rules)
    ]


def _bend(w: np.ndarray, c: np.ndarray) -> float:
    """Largest distance of A = S(2 c^2) from the line through its two ends in 1/w."""
    a = expit(2 * c**2)
    share = (1 / w - 1 / w[0]) / (1 / w[-1] - 1 / w[0])
    return float(np.abs(a - a[0] - share * (a[-1] - a[0])).max())


def _barrier() -> float:
    """Loss at BARRIER_ANGLE less that of the semantic end, on the border of the lead at w = .7."""
    c = float(contrast_of(lead(np.array(0.7), ends(NODES, 1.0))))
    nodes = trapezoidal(0.375)
    top = loss(nodes, np.sin(BARRIER_ANGLE), np.cos(BARRIER_ANGLE), 0.7, c)
    return float(top - loss(nodes, 0.0, 1.0, 0.7, c))


def _border_contrast(w: float, rule: Callable[[PositionalPhases], np.ndarray]) -> float:
    """The contrast up to which the rule holds, in the middle of a cell of width 3/CELLS^3."""
    low = 0.0
    high = WIDEST_CONTRAST
    for _ in range(3):
        grid = np.linspace(low, high, CELLS + 1)
        last = int(np.flatnonzero(rule(positional_phases([w], grid))[0])[-1])
        low = grid[last]
        high = grid[last + 1]
    return (low + high) / 2


def _sampled_loss_difference(
    w: float, n: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean and standard error of the difference of both losses on drawn tokens, at the border."""
    c = float(contrast_of(lead(np.array(w), ends(NODES, 1.0))))
    task = PositionalSemantic(DIM, w, c)
    batch = task.sample(n, seed=int(rng.integers(2**31)))
    losses = [
        np.sum((batch.target - task.student_weights(k, batch.tokens)) ** 2, axis=1)
        for k in (task.key, task.place)
    ]
    return mean_and_error(losses[0] - losses[1])


def _figure(measured: list[np.ndarray]) -> Figure:
    w = np.linspace(0.35, 0.955, 243)
    semantic, positional = stable(w, NODES, 1.0)
    borders = [lead(w, ends(NODES, 1.0)), semantic, positional]
    marks: list[Mark] = []
    for i, (a, name) in enumerate(zip(borders, BORDERS)):
        c = contrast_of(np.where((a >= 0.5) & (a < 1), a, 0.5))
        inside = (a >= 0.5) & (c <= 2) & (a < 1)
        marks.append(Line(c[inside], w[inside], name, i))
        marks.append(Points(measured[i], BORDER_MIXES[i], "", i))
    diagram = panel(
        "borders of the phases",
        "contrast c",
        "positional share w",
        *marks,
        legend("by the diagram"),
        x_range=(0.7, 2.05),
        y_range=(0.33, 0.98),
    )
    return figure("Meaning or position: who leads", diagram)


CLAIM = Claim(
    id="beyond-18-positional-boundary",
    title="Meaning and position exchange the lead discontinuously",
    statement=(
        "[For a positional share w = .82 of the target, attention over two tokens has one loss at its "
        f"semantic and its positional minimum at contrast {CONTRASTS[1]:g}](lead, drawn, stated).",
        f"[The positional minimum exists from contrast {CONTRASTS[0]:g} on](positional, stated), "
        f"[the semantic one up to {CONTRASTS[2]:g}](semantic, stated): between them both do.",
        "[All three borders are straight lines in (1/w, A), A = S(2 c^2)](straight).",
        "[The lead is exchanged by a jump: where both have one loss at w = .7, a barrier of "
        f"{BARRIER:g} lies between them](barrier).",
    ),
    headline="stated",
    provenance=Provenance(
        "new here",
        ("positional/transition",),
        "the definition, all of its constants, and the borders",
    ),
    hypotheses=(
        "two Gaussian tokens, tied query and key of rank one, unit keys, P = 1, w <= .94; at the "
        "semantic minimum the key is the teacher's, at the positional one the position vector"
    ),
    routes=(
        "integrals in two dimensions by Stein's identities",
        "lowest minimum over the whole set by the series; drawn tokens",
    ),
    check=check,
    snippet="""\
import attnscope as at
for c in (1.0691, 1.0693):
    task = at.PositionalSemantic(dim=1000, mix=0.7, contrast=c)
    lowest = at.positional_minima(task)[0]
    print(c, lowest.phase, lowest.loss.value)
""",
)
