"""`attnscope train`: training of every task of the catalogue, in words."""

from __future__ import annotations

import tempfile
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from attnscope.cli.common import COLUMNS, STOPPED, Json, Seed, TaskName, With, app
from attnscope.cli.completion import some_of
from attnscope.cli.json_text import print_json
from attnscope.cli.theory import (
    SINGLE_LOCATION,
    Dim,
    Gamma2,
    InverseTemperature,
    Length,
    Noise,
    PredictorName,
    Signal,
    chosen_pair,
)
from attnscope.errors import AttnscopeError
from attnscope.files import check_file, check_place, whole_file, write_csv
from attnscope.optional import needs

if TYPE_CHECKING:
    from attnscope.dynamics.train import EngineName


@app.command("train")
def train_command(
    task: TaskName = SINGLE_LOCATION,
    more: With = None,
    dim: Dim = None,
    length: Length = None,
    gamma2: Gamma2 = None,
    noise: Noise = None,
    signal: Signal = None,
    predictor: PredictorName = "erf",
    inverse_temperature: InverseTemperature = 0.1,
    rate: Annotated[
        float, typer.Option(help="Schedule lambda/(1 + rate step) if > 0.")
    ] = 0.0,
    start: Annotated[
        str,
        typer.Option(
            help="sphere, manifold or moments.",
            autocompletion=some_of("sphere", "manifold", "moments"),
        ),
    ] = "sphere",
    runs: Annotated[int, typer.Option(help="Independent runs.")] = 30,
    steps: Annotated[int, typer.Option(help="Updates per run.")] = 20_000,
    step_size: Annotated[float, typer.Option(help="Step size alpha.")] = 4e-3,
    log_every: Annotated[
        int | None, typer.Option(help="Steps between log points; steps/100 if left out.")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="SGD on fresh batches of this size; population gradient if left out."
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="reduced (overlaps, any dimension) or full (vectors).",
            autocompletion=some_of("reduced", "full"),
        ),
    ] = "reduced",
    heads: Annotated[int | None, typer.Option(help="Train the sum of so many heads.")] = None,
    swap_move: Annotated[
        bool, typer.Option(help="Exchange k and v where the roles are swapped.")
    ] = False,
    seed: Seed = 0,
    csv: Annotated[Path | None, typer.Option(help="Write the trajectories as CSV.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw risk, distance and overlaps by outcome to .svg, .png or .pdf."
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Save the run as .npz, to be extended from Python.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train the predictor by exact low-dimensional dynamics and say where the runs end."""
    import attnscope as at
    from attnscope.dynamics.overlap_runs import at_inverse_temperature

    for name, path in {"--csv": csv, "--plot": plot, "--save": save}.items():
        if path is not None:
            check = check_file if name == "--save" else check_place
            check(path, "attnscope train", name)
    if plot is not None:
        needs("matplotlib", "attnscope train --plot")
    given = {"dim": dim, "length": length, "gamma2": gamma2, "noise": noise, "signal": signal}
    chosen = chosen_pair(
        task,
        predictor,
        given | {"inverse_temperature": inverse_temperature},
        more,
        "attnscope train",
    )
    trained = chosen.family(inverse_temperature)
    if rate:
        trained = at_inverse_temperature(trained, at.InverseTime(inverse_temperature, rate))
    run = at.train(
        chosen.make_task(),
        trained if heads is None else at.MultiHead(trained, heads),
        cast(Any, start),  # `train` refuses what it does not know
        runs=runs,
        steps=steps,
        step_size=step_size,
        log_every=max(1, steps // 100) if log_every is None else log_every,
        batch_size=batch_size,
        engine=cast("EngineName", engine),
        swap_move=swap_move,
        seed=seed,
    )
    refused = _write_files(run, csv, plot, save)
    if hasattr(run, "form_cosine"):
        _print_heads(run, as_json)
    else:
        _print_run(run, as_json)
    if refused:
        raise AttnscopeError(" ".join(refused))
    if run.step[-1] < steps:  # stopped by Ctrl-C: what was reached is shown and written
        raise typer.Exit(STOPPED)


def _write_files(
    run: Any, csv: Path | None, plot: Path | None, save: Path | None
) -> list[str]:
    """Write what was asked for, each file whatever became of the others; the refusals.

    Where one is refused and the run is not saved, it is kept in the temporary folder: nothing
    computed is lost.
    """
    writes = {
        "csv": (csv, partial(_write_csv, run)),
        "plot": (plot, run.plot),
        "save": (save, run.save),
    }
    refused = {}
    for name, (path, write) in writes.items():
        if path is None:
            continue
        try:
            write(path)
        except AttnscopeError as error:
            refused[name] = str(error)
    sentences = list(refused.values())
    if refused and (save is None or "save" in refused):
        sentences.append(_save_elsewhere(run))
    return sentences


def _write_csv(run: Any, path: Path) -> None:
    frame = run.to_frame()
    with whole_file(path, "attnscope train", "--csv", ending=f".tmp{path.suffix}") as part:
        write_csv(frame, part)  # .csv.gz and its like are packed by their ending


def _save_elsewhere(run: Any) -> str:
    """Save the run where nobody asked for it; the sentence that says where."""
    try:
        path = Path(tempfile.mkdtemp(prefix="attnscope-"), "run.npz")
        run.save(path)
    except (AttnscopeError, OSError):
        return "The run itself could not be kept either."
    return f"The run is kept in {path}."


def _print_run(run: Any, as_json: bool) -> None:
    import numpy as np

    counts = {
        name: int(np.sum(run.outcome == name))
        for name in ("oracle", "swapped", "undecided", "diverged")
    }
    ends = {
        name: np.asarray(getattr(run.overlaps, name))[:, -1] for name in run.overlaps._fields
    }
    if as_json:
        last = {name: x.tolist() for name, x in ends.items()} | {
            "excess": run.excess[:, -1].tolist()
        }
        out = {
            "steps": int(run.step[-1]),
            "outcomes": counts,
            "outcome": run.outcome.tolist(),
            "end": last,
        }
        print_json(out | {"diagnosis": run.diagnose()})
        return
    _print_counts(run, counts)
    found = run.ends()
    names = "".join(f"{name:>9}" for name in found.columns[1:])
    print(f"{'outcome':<12}{'runs':>6}{found.columns[0]:>12}{names}  (medians)")
    for name, n in found.counts.items():
        first, *medians = found.medians[name]
        cells = "".join(f"{x:>9.4f}" for x in medians)
        print(f"{name:<12}{n:>6}{first:>12.5f}{cells}")
    for sentence in run.diagnose():
        print("\n" + textwrap.fill(sentence, COLUMNS), end="")
    print()


def _print_heads(run: Any, as_json: bool) -> None:
    """Runs of several heads, or on several directions: what the heads know together."""
    import numpy as np

    names = ("specialised", "swapped", "rotated", "unspecialised", "diverged")
    counts = {name: int(np.sum(run.outcome == name)) for name in names}
    if as_json:
        found = run.risk_at(-1)
        last = {
            "excess": found.excess,
            "error": np.broadcast_to(found.error, found.excess.shape),
        }
        last |= {"form_cosine": run.form_cosine[:, -1], "span": run.span[:, -1]}
        out = {
            "steps": int(run.step[-1]),
            "outcomes": counts,
            "outcome": run.outcome.tolist(),
        }
        print_json(out | {"end": last})
        return
    _print_counts(run, counts)
    print(
        f"{'outcome':<15}{'runs':>6}{'excess':>12}{'form cosine':>14}{'span':>8}  (medians)"
    )
    ends = run.ends()
    for name, n in ends.counts.items():
        excess, cosine, span = ends.medians[name]
        print(f"{name:<15}{n:>6}{excess:>12.5f}{cosine:>14.4f}{span:>8.4f}")
    print(
        "\nform cosine: of the heads' sum of k v^T with the teachers';\n"
        "span: share of k and v in that of the teachers"
    )


def _print_counts(run: Any, counts: dict[str, int]) -> None:
    ends = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    print(f"{len(run.outcome)} runs, {run.step[-1]} steps: {ends}\n")
