"""Numbers that people gave: ratings of tweets, from the states of their word pieces.

    python bench/estimators/rated_text.py [--name tweets] [--folder .] [--seeds 5] [--first 0] [--layers static 3]
        [--models mean-pool boosting] [--record docs/recorded/rated_text.json]

450 texts to fit, 1,000 others to test, drawn by the seed; against gated attention (its grid, on
the same texts), ridge on the mean token and boosting on pooled tokens. R2 on the test texts, its
difference to gated attention seed by seed with the standard error of the mean, and seconds of the
processor on one thread. No row is judged where gated attention does not beat the mean rating: a peer
that was not trained proves nothing.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import jobs
from cases import Split
from record import record

from attnscope.corpora.rated_text import RATED_NAMES, load_rated_text

FIT = 450
TEST = 1000
JUDGED = ("ours", "ABMIL")
OTHERS = ("mean-pool", "boosting")


def split(name: str, folder: str, layer: int | str, seed: int) -> Split:
    data = load_rated_text(name, folder)
    rows = np.random.default_rng(seed).permutation(len(data.texts))[: FIT + TEST]
    found = data.take(rows).bags(layer)
    return Split(found.bags[:FIT], found.rating[:FIT], found.bags[FIT:], found.rating[FIT:])


def measured(part: Split, seed: int, models: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """R2 and seconds of these models."""
    out = {}
    for model in models:
        if model == "ours":
            found = jobs._ours(part, seed, {})
        else:
            found = jobs._peer(part, seed, *jobs.PEERS[model])
        out[model] = found | {"R2": 1 - found["error"] / float(np.var(part.test_y))}
    return out


def gain_of(seeds: list[dict]) -> tuple[float, float]:
    """R2 of ours less that of gated attention: mean over seeds and its standard error."""
    gain = np.array([found["ours"]["R2"] - found["ABMIL"]["R2"] for found in seeds])
    error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
    return float(gain.mean()), float(error)


def to_record(layer: int | str, seeds: list[dict]) -> dict[str, float]:
    """What the documentation states of one layer; timings are not kept."""
    kept = {
        f"{layer} | {model} | R2": float(np.mean([found[model]["R2"] for found in seeds]))
        for model in seeds[0]
    }
    gain, error = gain_of(seeds)
    covered = float(np.mean([found["ours"]["coverage"] for found in seeds]))
    return kept | {
        f"{layer} | ours | coverage": covered,
        f"{layer} | gain": gain,
        f"{layer} | gain | standard error": error,
    }


def table(layer: int | str, seeds: list[dict]) -> list[str]:
    """Lines for one layer."""
    mean = lambda model, what: float(np.mean([found[model][what] for found in seeds]))
    lines = [f"layer {layer}, {len(seeds)} seeds: mean R2, seconds of a fit"]
    for model in seeds[0]:
        lines.append(f"  {model:10} {mean(model, 'R2'):6.3f} {mean(model, 'seconds'):8.2f}")
    gain, error = gain_of(seeds)
    ours = mean("ours", "seconds")
    peer = mean("ABMIL", "seconds")
    lines.append(f"  ours less ABMIL: R2 {gain:+.3f} (standard error {error:.3f})")
    if mean("ABMIL", "R2") <= 0:
        return [*lines, "  not judged: gated attention is no better than the mean rating"]
    said = {True: "yes", False: "NO"}
    lines.append(f"  R2 >= gated attention's - 2 SE: {said[gain >= -2 * error]}")
    once = mean("ABMIL", "one training")
    lines.append(
        f"  seconds <= its: {said[ours <= peer]} ({ours / peer:.2f} of its grid, "
        f"{ours / once:.2f} of one training)"
    )
    lines.append(f"  90 % intervals hold {mean('ours', 'coverage'):.3f}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", default="tweets", choices=list(RATED_NAMES))
    parser.add_argument("--folder", default=".", help="where pip put the download")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--first", type=int, default=0, help="the first of them (rules were tuned on 0 to 7)"
    )
    parser.add_argument("--layers", nargs="*", default=["static", "3"])
    parser.add_argument("--models", nargs="*", default=OTHERS, help="beside ours and ABMIL")
    parser.add_argument("--record", help="write what the documentation states there")
    options = parser.parse_args()
    kept: dict[str, float] = {}
    models = (*JUDGED, *options.models)
    for word in options.layers:
        layer = int(word) if word.isdigit() else word
        found = []
        for seed in range(options.first, options.first + options.seeds):
            part = split(options.name, options.folder, layer, seed)
            found.append(measured(part, seed, models))
            shown = {model: round(found[-1][model]["R2"], 3) for model in models}
            print(f"layer {layer}, seed {seed}: {shown}", file=sys.stderr, flush=True)
        print("\n".join(table(layer, found)), flush=True)
        kept |= to_record(layer, found)
        if options.record:
            record(options.record, kept)


if __name__ == "__main__":
    main()
