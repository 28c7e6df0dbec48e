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

from attnscope.claims.claim import Claim, Context, Evidence, Table
from attnscope.claims.compare import BAND, mean_and_error, sampled
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark, Panel, Points
from attnscope.theory.exchangeable.shared_layer import shared_layer_risk

NOISE = 0.5
SHARED = ((7, 20), (8, 20), (32, 20), (128, 20), (32, 5), (32, 80))  # (N, n); 7 is odd
OWN = ((8, 20), (8, 80), (32, 80))
MOST = 1 << 23  # numbers of one block of repetitions: 64 MB


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 611])
    times = context.pick(1, 10)
    shared = np.array([_drawn(N, n, _repeats(N, n) * times, True, rng) for N, n in SHARED])
    own = np.array([_drawn(N, n, 400 * times, False, rng) for N, n in OWN])
    exact = np.array([shared_layer_risk(N, n, NOISE).excess for N, n in SHARED])
    exact_own = np.array([shared_layer_risk(N, n, NOISE, False).excess for N, n in OWN])
    comparisons = (
        *(
            sampled(f"shared filter, N = {N}, n = {n}", *row)
            for (N, n), row in zip(SHARED, np.column_stack([exact, shared]))
        ),
        *(
            sampled(f"own weights, N = {N}, n = {n}", *row)
            for (N, n), row in zip(OWN, np.column_stack([exact_own, own]))
        ),
    )
    notes = (
        "With n = 20 sequences own weights at N = 32 positions have no finite error: fewer "
        "sequences than unknowns."
    )
    rows = [
        (f"{how}, N = {N}, n = {n}", x, *map(float, row))
        for how, sizes, exact_ones, drawn in (
            ("shared", SHARED, exact, shared),
            ("own weights", OWN, exact_own, own),
        )
        for (N, n), x, row in zip(sizes, exact_ones, drawn)
    ]
    table = Table("excess per position", ("layer", "exact", "drawn", "error"), tuple(rows), 5)
    return Evidence(comparisons, _figure(shared, own), notes, tables=(table,))


def _repeats(N: int, n: int) -> int:
    """Repetitions whose cost is about that of 100 at N = 128, n = 20."""
    return int(np.clip(100 * (128**2 * 20 * 128) / (N**2 * n * N), 100, 1200))


def _drawn(
    N: int, n: int, repeats: int, shared: bool, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean excess per position over repetitions, and its standard error."""
    step = max(1, MOST // (n * N * N))
    fit = _shared_excess if shared else _own_excess
    blocks = [min(step, repeats - i) for i in range(0, repeats, step)]
    return mean_and_error(np.concatenate([fit(N, n, size, rng) for size in blocks]))


def _shared_excess(N: int, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """|h^ - h|^2 of `size` fits, each of n sequences."""
    shift = (np.arange(N)[:, None] - np.arange(N)) % N
    x = rng.standard_normal((size, n, N))
    rows = x[:, :, shift].reshape(size, n * N, N)  # output position p uses x at p - j
    h = rng.standard_normal((size, N, 1))
    y = rows @ h + NOISE * rng.standard_normal((size, n * N, 1))
    flipped = rows.swapaxes(1, 2)
    found = np.linalg.solve(flipped @ rows, flipped @ y)
    return np.sum((found - h) ** 2, axis=(1, 2))


def _own_excess(N: int, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """|W^ - W|^2/N of `size` fits, each of n sequences."""
    x = rng.standard_normal((size, n, N))
    W = rng.standard_normal((size, N, N))
    y = x @ W + NOISE * rng.standard_normal((size, n, N))
    flipped = x.swapaxes(1, 2)
    found = np.linalg.solve(flipped @ x, flipped @ y)
    return np.sum((found - W) ** 2, axis=(1, 2)) / N


def _figure(shared: np.ndarray, own: np.ndarray) -> Figure:
    many = np.unique(np.geomspace(4, 256, 25).astype(int))
    even = many + many % 2  # odd numbers differ a little: one line, no teeth
    marks: list[Mark] = []
    for color, n in enumerate((5, 20, 80)):
        curve = [shared_layer_risk(int(N), n, NOISE).excess for N in even]
        marks.append(Line(even, curve, f"shared, n = {n}", color))
        here = [i for i, (_, sequences) in enumerate(SHARED) if sequences == n]
        x = [SHARED[i][0] for i in here]
        marks.append(Points(x, shared[here, 0], "", color, BAND * shared[here, 1]))
    for color, n in ((1, 20), (2, 80)):
        N = np.arange(4, n - 1)
        curve = [shared_layer_risk(int(k), n, NOISE, False).excess for k in N]
        marks.append(Line(N, curve, f"own weights, n = {n}", color, dashed=True))
        here = [i for i, (_, sequences) in enumerate(OWN) if sequences == n]
        x = [OWN[i][0] for i in here]
        marks.append(Points(x, own[here, 0], "", color, BAND * own[here, 1]))
    marks.append(Points([], [], "least squares, drawn", 6))
    panel = Panel(
        "error per position",
        "positions N",
        "excess error",
        tuple(marks),
        log_x=True,
        log_y=True,
    )
    return Figure("A shared layer learns from every position", (panel,))


CLAIM = Claim(
    id="around-11-shared-layer",
    title="A shared layer learns from every position",
    statement=(
        "A linear layer that is shared by N positions on a ring and fitted to n sequences errs per "
        "position by s^2/N [(N-2)/(n-1) + 2/(n-2)] (N even), which does not grow with N and needs "
        "no more than three sequences; own weights at every position err by s^2 N/(n-N-1)."
    ),
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
    snippet=(
        "import attnscope as at\n"
        "for positions in (8, 32, 128):\n"
        "    print(positions, at.shared_layer_risk(positions, sequences=20, noise=0.5).excess)\n"
        "print(at.shared_layer_risk(8, sequences=20, noise=0.5, shared=False).excess)\n"
    ),
)
