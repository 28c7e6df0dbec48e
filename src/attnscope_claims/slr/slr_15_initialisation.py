"""Initialisation: a start from moments, or exchanging k and v when the token mean says so, always
leads to the oracle; k0 = v0 does not.

Moments. k0 is the direction of the mean of the token sums, v0 that of the covariance of label and
token sum, from 200 labelled sequences; nothing of k*, v* is used. Then kappa is close to 1 and
theta, rho are close to 0. With kappa = 1, eta = theta = rho = 0 the risk is constant - 2 gam^2 nu
erf(a), so nu rises from any value above -1: the oracle is reached from all of them. The engine
draws the overlaps of this start from their exact law (starts.py), without tokens; the other route
estimates k0, v0 from sampled tokens and trains those.

Swap move. A run that settles with |v.mean| > |k.mean|, mean the token mean (s k*/L), has k and v
exchanged and goes on (dynamics/loop.py).

k0 = v0, one random direction: that fewer runs reach the oracle than from independent starts is
measured on runs which stop after 2500 steps: |nu| > |eta| then shows where a run ends (in all of 5000
runs that were looked at).
"""

from __future__ import annotations

import math

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import stated, wilson
from attnscope.claims.provenance import Provenance
from attnscope.dynamics.starts import Moments, StartName, starting_overlaps
from attnscope.dynamics.train import train
from attnscope.dynamics.trajectory import Trajectory
from attnscope.figures.figure import Figure, Line, Points
from attnscope.predictors.attention import Erf
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope_claims.drawing import figure, panel
from attnscope_claims.panels import counted

TASK = SingleLocation(dim=400, length=10)
LAM = 0.1
ALPHA = 4e-3
STEPS = 20_000
DECIDED_STEPS = 2500  # steps after which |nu| > |eta| shows where a run ends
SHARE_RUNS = 8000  # runs that stop there, from independent starts and with k0 = v0
# Stated: labelled sequences for the moments; the shares of runs at the oracle from independent starts
# and with k0 = v0, minus those from independent starts.
SEQUENCES = 200
INDEPENDENT_SHARE = 0.5
SHARE_DIFFERENCE = -0.09


def check(context: Context) -> Evidence:
    seed = context.seed
    scale = context.pick(1, 5)
    moments = _train_runs("moments", 100 * scale, STEPS, 200, seed)
    sampled = _sampled_starts(20 * scale, seed)
    from_tokens = _train_runs(Overlaps(*sampled), sampled.shape[1], STEPS, STEPS, seed)
    swap = _train_runs("sphere", 200 * scale, 2 * STEPS, 400, seed, swap_move=True)
    independent, same = (
        _share_decided(start, SHARE_RUNS, seed + 2) for start in ("sphere", "k0 = v0")
    )
    comparisons = (
        counted(
            f"runs at the oracle from moments, of {moments.runs}",
            moments.runs,
            moments.outcome,
            "oracle",
            key="moments",
        ),
        counted(
            f"... from moments of sampled tokens, of {from_tokens.runs}",
            from_tokens.runs,
            from_tokens.outcome,
            "oracle",
            key="tokens",
        ),
        counted(
            f"runs at the oracle with the swap move, of {swap.runs}",
            swap.runs,
            swap.outcome,
            "oracle",
            key="swap-move",
        ),
        stated(
            "independent",
            f"share of {SHARE_RUNS} independent starts that reach the oracle, as stated",
            INDEPENDENT_SHARE,
            independent,
            0.01,
            0.5 / math.sqrt(SHARE_RUNS),
        ),
        stated(
            "difference",
            f"share from k0 = v0 minus that from independent starts, {SHARE_RUNS} each, as stated",
            SHARE_DIFFERENCE,
            same - independent,
            0.01,
            math.hypot(*(math.sqrt(p * (1 - p) / SHARE_RUNS) for p in (same, independent))),
        ),
    )
    notes = (
        f"At the start from moments kappa is {moments.overlaps.kappa[:, 0].mean():.3f} and nu "
        f"{moments.overlaps.nu[:, 0].mean():.3f} in the mean. "
        f"The swap move was made in {int((swap.swapped_at >= 0).sum())} of {swap.runs} runs. k0 = "
        f"v0 reaches the oracle in {same:.0%} "
        f"of {SHARE_RUNS} runs, independent starts in {independent:.0%}: it does not help."
    )
    shares = {"random": (independent, SHARE_RUNS), "k0 = v0": (same, SHARE_RUNS)}
    return Evidence(comparisons, _figure(moments, swap, shares), notes)


def _train_runs(
    start: StartName | Overlaps,
    runs: int,
    steps: int,
    every: int,
    seed: int,
    swap_move: bool = False,
) -> Trajectory:
    return train(
        TASK,
        Erf(LAM),
        start,
        runs,
        steps,
        ALPHA,
        every,
        seed,
        swap_move=swap_move,
        progress=False,
    )


def _share_decided(start: str, runs: int, seed: int) -> float:
    """Share of runs that are on their way to the oracle after DECIDED_STEPS steps."""
    overlaps = (
        starting_overlaps(TASK, "sphere", runs, seed)
        if start == "sphere"
        else _equal_starts(runs, seed + 10**6)
    )
    _, eta, _, nu, _ = _train_runs(
        Overlaps(*overlaps), runs, DECIDED_STEPS, DECIDED_STEPS, seed
    ).log[:, :, -1]
    return float(np.mean(np.abs(nu) > np.abs(eta)))


def _sampled_starts(count: int, seed: int) -> np.ndarray:
    """(5, count) overlaps of directions estimated from SEQUENCES sampled sequences each."""
    seeds = np.random.SeedSequence([seed, 15]).generate_state(count)
    return np.array(
        [
            Overlaps.of(
                TASK, *Moments(SEQUENCES).estimate(TASK.sample(SEQUENCES, seed=int(s)))
            )
            for s in seeds
        ]
    ).T


def _equal_starts(count: int, seed: int) -> np.ndarray:
    """Overlaps of k0 = v0, one uniform direction."""
    kappa, eta, *_ = starting_overlaps(TASK, "sphere", count, seed)
    return np.array([kappa, eta, kappa, eta, np.ones(count)])


def _figure(
    moments: Trajectory, swap: Trajectory, shares: dict[str, tuple[float, int]]
) -> Figure:
    """`shares`: of the other starts, with the number of runs."""
    trained = {"swap move": swap, "moments": moments}
    shares |= {
        name: (float(np.mean(run.outcome == "oracle")), run.runs)
        for name, run in trained.items()
    }
    names = tuple(shares)
    p = [share for share, _ in shares.values()]
    words = "share with 95 % interval"
    # Wilson's interval does not shrink to nothing at a share of 1
    bars = tuple(
        Line([i, i], np.ravel(wilson(share * n, n)), words, color=3, thin=True)
        for i, (share, n) in enumerate(shares.values())
    )
    reached = panel(
        "share of runs that reach the oracle",
        "start",
        "share",
        *bars,
        Points(np.arange(4), p, words, 3),
        y_range=(0, 1.05),
        x_names=names,
    )
    return figure(f"Starts: {', '.join(names)}", reached)


CLAIM = Claim(
    id="slr-15-initialisation",
    title="Moments and the swap move always reach the oracle",
    statement=(
        "[At inverse temperature 0.1 random starts reach the oracle for half of the runs "
        "only](independent).",
        f"[A start from the moments of {SEQUENCES} labelled sequences, which uses nothing of k* and "
        "v*, always reaches it](moments, tokens).",
        "[So does training that exchanges k and v when the token mean indicates that their roles "
        "are swapped](swap-move).",
        "[Starting with k0 = v0 reaches the oracle less often than independent directions, by "
        f"{-SHARE_DIFFERENCE:g} of the runs](difference).",
    ),
    headline="moments",
    provenance=Provenance(
        "new here",
        ("A/open-start",),
        "starts from moments, and the swap move",
    ),
    hypotheses="erf predictor, population gradient, d = 400, L = 10, gamma^2 = 1/2",
    routes=(
        "monotone nu at kappa = 1; starts from sampled tokens",
        "compiled five-overlap engine with drawn starts",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.SingleLocation(dim=400, length=10)\n"
        'print(at.train(task, at.Erf(0.1), start="sphere", runs=100, progress=False))\n'
        'print(at.train(task, at.Erf(0.1), start="moments", runs=100, progress=False))\n'
        "print(at.train(task, at.Erf(0.1), runs=100, steps=40_000, swap_move=True, "
        "progress=False))\n"
    ),
    rests_on=("slr-02-closed-form-risk",),
)
