"""A shared layer learns from every position: its error does not grow with their number.

notation: N = positions on a ring, n = sequences, s = noise (theory.exchangeable.shared_layer).

Predicted: the closed forms, by Fourier and Wishart. Measured: least squares on drawn sequences in
real space. For the shared filter every position of every sequence is one equation in N unknowns (n
N rows of shifted inputs); for own weights each output position is a regression on N inputs. The
inputs are white, so the excess of an estimated filter is |h^ - h|^2, that of own weights |W^ -
W|^2/N.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import Z, mean_and_error, sampled, stated, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark
from attnscope.theory.exchangeable.shared_layer import shared_layer_risk
from attnscope_claims.drawing import figure, legend, panel, sampled_points
from attnscope_claims.sphere_errors import spread_slope

NOISE = 0.5
SHARED_SIZES = ((7, 20), (8, 20), (32, 20), (128, 20), (32, 5), (32, 80))  # (N, n); 7 is odd
OWN_SIZES = ((8, 20), (8, 80), (32, 80))
BLOCK_NUMBERS = 1 << 23  # numbers of one block of repetitions: 64 MB
FEWEST_SIZES = (32, 3)  # (N, n) of the fits to three sequences
FEWEST_FITS = 400
# What the statement says: the slope of log error in log N of a shared layer; the error of one at
# N = 32, n = 20 and of own weights at N = 32, n = 80.
IN_POSITIONS = 0.0
SHARED_ERROR, OWN_ERROR = 0.0132, 0.170


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 611])
    times = context.pick(1, 10)
    shared = np.array(
        [_sampled_excess(N, n, _repeats(N, n) * times, True, rng) for N, n in SHARED_SIZES]
    )
    own = np.array([_sampled_excess(N, n, 400 * times, False, rng) for N, n in OWN_SIZES])
    exact = np.array([shared_layer_risk(N, n, NOISE).excess for N, n in SHARED_SIZES])
    exact_own = np.array([shared_layer_risk(N, n, NOISE, False).excess for N, n in OWN_SIZES])
    positions, sequences = FEWEST_SIZES
    three = _complex_part(positions, sequences, FEWEST_FITS * times, context.seed)
    many = [i for i, (N, n) in enumerate(SHARED_SIZES) if n == 20 and N % 2 == 0]
    slope, spread = spread_slope(
        np.array([SHARED_SIZES[i][0] for i in many]), *shared[many].T
    )
    comparisons = (
        *(
            sampled(f"shared filter, N = {N}, n = {n}", *row, key=f"shared-{N}-{n}")
            for (N, n), row in zip(SHARED_SIZES, np.column_stack([exact, shared]))
        ),
        *(
            sampled(f"own weights, N = {N}, n = {n}", *row, key=f"own-{N}-{n}")
            for (N, n), row in zip(OWN_SIZES, np.column_stack([exact_own, own]))
        ),
        worst(
            "slope of the shared layer's error in N, n = 20, as stated",
            IN_POSITIONS,
            slope,
            Z * spread + 0.01,
            "5 standard errors (6e-7 of the seeds) + 0.01: 2/(n - 2) at two frequencies of N",
            key="flat",
            scale=1.0,
        ),
        stated(
            "shared",
            "error per position, N = 32: shared at n = 20, as stated",
            SHARED_ERROR,
            shared[SHARED_SIZES.index((32, 20)), 0],
            1e-4,
            shared[SHARED_SIZES.index((32, 20)), 1],
        ),
        stated(
            "own",
            "error per position, N = 32: own weights at n = 80, as stated",
            OWN_ERROR,
            own[OWN_SIZES.index((32, 80)), 0],
            1e-3,
            own[OWN_SIZES.index((32, 80)), 1],
        ),
        sampled(
            "shared filter, N = 32, n = 3, complex frequencies",
            NOISE**2 * (positions - 2) / positions / (sequences - 1),
            *three,
            key="three",
        ),
    )
    notes = (
        "With n = 20 sequences own weights at N = 32 positions have no finite error: fewer "
        "sequences than unknowns."
    )
    return Evidence(comparisons, _figure(shared, own), notes)


def _repeats(N: int, n: int) -> int:
    """Repetitions whose cost is about that of 100 at N = 128, n = 20."""
    return int(np.clip(100 * (128**2 * 20 * 128) / (N**2 * n * N), 100, 1200))


def _sampled_excess(
    N: int, n: int, repeats: int, shared: bool, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean excess per position over repetitions, and its standard error."""
    step = max(1, BLOCK_NUMBERS // (n * N * N))
    fit = _shared_excess if shared else _own_excess
    blocks = [min(step, repeats - i) for i in range(0, repeats, step)]
    return mean_and_error(np.concatenate([fit(N, n, size, rng) for size in blocks]))


def _shared_excess(N: int, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """|h^ - h|^2 of `size` fits, each of n sequences."""
    return np.sum(_shared_misfit(N, n, size, rng) ** 2, axis=(1, 2))


def _shared_misfit(N: int, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """h^ - h of `size` fits, (size, N, 1)."""
    shift = (np.arange(N)[:, None] - np.arange(N)) % N
    x = rng.standard_normal((size, n, N))
    rows = x[:, :, shift].reshape(size, n * N, N)  # output position p uses x at p - j
    h = rng.standard_normal((size, N, 1))
    y = rows @ h + NOISE * rng.standard_normal((size, n * N, 1))
    flipped = rows.swapaxes(1, 2)
    return np.linalg.solve(flipped @ rows, flipped @ y) - h


def _complex_part(N: int, n: int, size: int, seed: int) -> tuple[float, float]:
    """The excess of `size` shared fits at the N - 2 complex frequencies, and its standard error; at
    the two real ones it has a mean but, with three sequences, no variance.
    """
    rng = np.random.default_rng([seed, 611, n])
    wrong = _shared_misfit(N, n, size, rng)[..., 0]
    power = np.abs(np.fft.fft(wrong, axis=1)) ** 2 / N
    return mean_and_error(np.sum(np.delete(power, [0, N // 2], axis=1), axis=1))


def _own_excess(N: int, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """|W^ - W|^2/N of `size` fits, each of n sequences."""
    x = rng.standard_normal((size, n, N))
    W = rng.standard_normal((size, N, N))
    y = x @ W + NOISE * rng.standard_normal((size, n, N))
    flipped = x.swapaxes(1, 2)
    found = np.linalg.solve(flipped @ x, flipped @ y)
    return np.sum((found - W) ** 2, axis=(1, 2)) / N


def _figure(shared: np.ndarray, own: np.ndarray) -> Figure:
    # odd numbers differ a little: even ones alone make one line without teeth
    even = 2 * np.unique(np.geomspace(2, 128, 25).astype(int))
    marks: list[Mark] = [legend("least squares, drawn")]
    for words, sizes, drawn in (
        ("shared", SHARED_SIZES, shared),
        ("own weights", OWN_SIZES, own),
    ):
        alone = words != "shared"
        for color, n in enumerate((5, 20, 80)):
            here = [i for i, (_, sequences) in enumerate(sizes) if sequences == n]
            N = np.arange(4, n - 1) if alone else even
            if here:
                curve = [shared_layer_risk(int(k), n, NOISE, not alone).excess for k in N]
                marks += [
                    Line(N, curve, f"{words}, n = {n}", color, dashed=alone),
                    sampled_points([sizes[i][0] for i in here], drawn[here], "", color),
                ]
    only = panel("error per position", "positions N", "excess error", *marks, log="xy")
    return figure("A shared layer learns from every position", only)


CLAIM = Claim(
    id="around-11-shared-layer",
    title="A shared layer learns from every position",
    statement=(
        "A linear layer that N positions on a ring share, fitted to n sequences, has the excess "
        "risk [s^2/N ((N-2)/(n-1) + 2/(n-2)) per position for even N](shared-8-20, shared-32-20, "
        "shared-128-20, shared-32-5, shared-32-80).",
        f"[With s = 1/2 it is {SHARED_ERROR:g} at N = 32, n = 20](shared).",
        "[It does not grow with N](flat), and [three sequences are enough](three).",
        "Separate weights at every position have the excess risk [s^2 N/(n-N-1)](own-8-20, "
        f"own-8-80, own-32-80), [{OWN_ERROR:g} at N = 32, n = 80](own).",
    ),
    headline="shared",
    provenance=Provenance(
        "new here",
        ("infinite/sharing",),
        "both errors in closed form",
    ),
    hypotheses="white inputs, a linear layer that commutes with shifts, label noise 1/2",
    routes=(
        "closed forms by Fourier and Wishart",
        "least squares in real space on drawn sequences",
    ),
    check=check,
    snippet="""\
import attnscope as at
for positions in (8, 32, 128):
    print(positions, at.shared_layer_risk(positions, sequences=20, noise=0.5).excess)
print(at.shared_layer_risk(8, sequences=20, noise=0.5, shared=False).excess)
""",
)
