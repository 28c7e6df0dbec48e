"""`attnscope fit`, `predict` and `locate`: estimators for bags in files, npz, CSV or parquet
(layouts: estimators/bags/tables.py), or in folders and files of .npy, .npz, .h5 with a label table
(estimators/bags/open_bags.py).
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from attnscope.cli.bag_files import (
    bag_table,
    coordinates,
    fit_stream,
    groups_of,
    is_file,
    token_size,
)
from attnscope.cli.bag_output import class_text, deliver, member_text, print_fit
from attnscope.cli.common import Json, app, interruptible, working
from attnscope.cli.fit_options import (
    Alpha,
    Assumption,
    Classify,
    Components,
    Gate,
    Groups,
    Heads,
    Interval,
    Loss,
    MaxSeconds,
    Pooling,
    Robust,
    Starts,
)
from attnscope.errors import AttnscopeError
from attnscope.files import check_file, whole_file

Data = Annotated[
    Path,
    typer.Argument(
        help="Bags: .npz with bags (n, L, d), or tokens and offsets; .csv or .parquet; a folder "
        "of .npy, .npz, .h5 or .parquet files, a bag each."
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(help="Names and labels of the bags in a folder, .csv or .parquet."),
]
Skip = Annotated[
    bool, typer.Option("--skip", help="Go on past files and names that do not fit.")
]
Model = Annotated[Path, typer.Argument(help="A model written by attnscope fit.")]
Bag = Annotated[
    str | None,
    typer.Option(help="Column that names the bag; 'bag', or as in fit, if left out."),
]
Out = Annotated[Path | None, typer.Option(help="Write every row to .csv, .parquet or .npz.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print every step on stderr.")]


@app.command("fit")
def fit_command(
    data: Data,
    out: Annotated[Path, typer.Option(help="Model file to write, .npz.")],
    target: Annotated[
        str | None, typer.Option(help="Array or column of the labels; y if left out.")
    ] = None,
    bag: Bag = None,
    labels: Labels = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Read a piece at a time: EM alone, any amount of data."
        ),
    ] = False,
    skip: Skip = False,
    weight: Annotated[
        str | None, typer.Option(help="Array or column of bag weights.")
    ] = None,
    groups: Groups = None,
    interval: Interval = None,
    classify: Classify = None,
    assumption: Assumption = None,
    gate: Gate = None,
    pooling: Pooling = None,
    loss: Loss = None,
    alpha: Alpha = None,
    heads: Heads = None,
    n_starts: Starts = None,
    robust: Robust = None,
    components: Components = None,
    max_seconds: MaxSeconds = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all.")] = 1,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Fit bags in which one token decides the label, and save the model."""
    from attnscope.estimators.bags.table_columns import Columns
    from attnscope.estimators.bags.table_output import check_output
    from attnscope.estimators.bags.tables import is_classes

    check_output(out, (".npz",), keep=(data, labels))
    check_file(out, "attnscope fit", "--out")
    if stream and (groups is not None or interval is not None):
        raise AttnscopeError(
            "--groups and --interval of attnscope fit must be left out with --stream: no bags are "
            "held out there."
        )
    column = None if is_file(groups) else groups
    columns = Columns(bag or "bag", target or "y", weight, groups=column)
    with working(f"reading {data}", verbose=False, quiet=as_json):
        table = bag_table(data, columns, (labels, bag, target, weight), skip)
        table = replace(table, groups=groups_of(table, groups, labels, bag))
    given = {
        "gate": gate,
        "pooling": pooling,
        "loss": loss,
        "heads": heads,
        "n_starts": n_starts,
        "robust": robust,
        "max_seconds": max_seconds,
        "interval": interval,
        "assumption": assumption,
    }
    given |= {"alpha": None if alpha is None else _alpha(alpha), "n_jobs": jobs}
    model = _estimator(is_classes(table.target) if classify is None else classify)
    model.set_params(
        random_state=seed,
        verbose=True,
        **{name: x for name, x in given.items() if x is not None},
        **({} if components is None else {"components": _components(components)}),
    )
    size = f"{len(table.bags)} bags, {token_size(table)[0]} tokens, {token_size(table)[1]} features"
    with interruptible(), working(f"fitting {size}", verbose, as_json):
        if stream:
            fit_stream(model, table)
        else:
            model.fit(table.bags, table.target, table.weight, table.groups)
    replaced = out.exists()
    written = _save(
        model.set_params(verbose=False),
        out,
        replace(columns, features=table.features or None),
    )
    print_fit(model, table, size, written, replaced, as_json)


def _estimator(classes: bool) -> Any:
    import attnscope as at

    return at.SingleLocationClassifier() if classes else at.SingleLocationRegressor()


def _alpha(text: str) -> Any:
    if text == "cv":
        return "cv"
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise AttnscopeError(
            f"--alpha must be cv, a number or two numbers gate,value, got {text!r}; try --alpha cv."
        )
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def _components(text: str) -> str | int | None:
    if text in ("auto", "all"):
        return text if text == "auto" else None
    # ten digits are more features than there are; int() refuses thousands
    if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) >= 1:
        return int(text)
    raise AttnscopeError(
        f"--components must be auto, all or a whole number >= 1, got {text!r}; try --components 64."
    )


def _save(model: Any, out: Path, columns: Any) -> Path:
    """Save the model with its columns' names; where the disk refuses, in the temporary folder:
    nothing computed is lost.
    """
    from attnscope.estimators.bags.table_columns import remember
    from attnscope.estimators.model_file import read as saved

    def write(path: Path) -> Path:
        with whole_file(path, "attnscope fit", "--out") as part:
            saved.write_model(model, part)
            remember(part, columns)
        return path

    try:
        return write(out)
    except AttnscopeError as error:
        print(f"warning: {error} The model is kept elsewhere.", file=sys.stderr)
        return write(Path(tempfile.mkdtemp(prefix="attnscope-"), out.name))


@app.command("predict")
def predict_command(
    model: Model,
    data: Data,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Also an interval (classes: a set) that holds the label so often, as 0.9."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Labels to score against; as in fit if they are there.")
    ] = None,
    bag: Bag = None,
    labels: Labels = None,
    skip: Skip = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Predict the labels of bags with a saved model;
    numbers with intervals, classes with probabilities.
    """
    fitted, table, name = _model_and_bags(model, data, bag, target, out, labels, skip)
    score = _score(fitted, table, name, asked=target is not None)
    columns = {"bag": table.names, "prediction": fitted.predict(table.bags)}
    if interval is not None and hasattr(fitted, "predict_set"):
        sets = fitted.predict_set(table.bags, interval)
        columns |= {"set": member_text(sets, fitted.classes_)}
    elif interval is not None:
        ends = fitted.predict_interval(table.bags, interval)
        columns |= {"low": ends[:, 0], "high": ends[:, 1]}
    if hasattr(fitted, "predict_proba"):
        shares = fitted.predict_proba(table.bags)
        columns |= {"probability": shares.max(axis=1)}
        columns |= {
            f"p_{class_text(name)}": share for name, share in zip(fitted.classes_, shares.T)
        }
    if table.target is not None:
        columns |= {name: table.target}
    deliver(
        columns, out, as_json, score, wide=[name for name in columns if name.startswith("p_")]
    )


def _score(fitted: Any, table: Any, name: str, asked: bool) -> dict[str, float] | None:
    """How good the predictions are; where labels that nobody asked for do not fit, a line on
    stderr says so.
    """
    if table.target is None:
        return None
    kind = "accuracy" if hasattr(fitted, "classes_") else "R2"
    try:
        return {kind: fitted.score(table.bags, table.target)}
    except AttnscopeError as error:
        if asked:
            raise
        print(f"{name} is not scored: {error}", file=sys.stderr)
        return None


@app.command("locate")
def locate_command(
    model: Model,
    data: Data,
    target: Annotated[
        str | None,
        typer.Option(help="Labels: then the token that most probably decided each."),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option("--set", help="Also the tokens it is among so often, as 0.9."),
    ] = None,
    bag: Bag = None,
    labels: Labels = None,
    skip: Skip = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Say which token of each bag decides: its position, counted from 0,
    and the model's attention to it.
    """
    import numpy as np

    fitted, table, _ = _model_and_bags(model, data, bag, target, out, labels, skip)
    known = table.target if target is not None or labels is not None else None
    columns = {"bag": table.names}
    for head in range(fitted.heads):
        suffix = "" if fitted.heads == 1 else f"_{head + 1}"
        where = fitted.locate(table.bags, known, head=head)
        weight = np.array(
            [w[i] for w, i in zip(fitted.attention(table.bags, head=head), where)]
        )
        columns |= {f"token{suffix}": where, f"attention{suffix}": weight}
        if within is not None:
            sets = fitted.locate_set(table.bags, within, head=head)
            columns |= {f"set{suffix}": member_text(sets)}
        if table.features:  # a table: the row of the file, from 0, that holds the token
            columns |= {f"row{suffix}": table.rows[table.bags.offsets[:-1] + where]}
        columns |= coordinates(table.bags, where, suffix)
    if within is not None and not hasattr(fitted, "location_scores_"):
        print(
            "sets are by the model's own posterior: no locations were known", file=sys.stderr
        )
    deliver(columns, out, as_json, None)


def _model_and_bags(
    model: Path,
    data: Path,
    bag: str | None,
    target: str | None,
    out: Path | None,
    labels: Path | None,
    skip: bool,
) -> tuple[Any, Any, str]:
    """The model, the bags and the name of their labels,
    after the output's path has been checked.
    """
    from attnscope import load_model
    from attnscope.estimators.bags.table_columns import recall
    from attnscope.estimators.bags.table_output import check_output

    if out is not None:
        check_output(out, keep=(model, data, labels))
    if not model.is_file():
        raise AttnscopeError(
            f"the model file {model} must exist, got no such file; try attnscope fit first."
        )
    fitted = load_model(model)
    columns = recall(model)
    columns = replace(columns, bag=bag or columns.bag, target=target or columns.target)
    with working(f"reading {data}", verbose=False):
        need = target is not None
        table = bag_table(data, columns, (labels, bag, target, None), skip, need)
    return fitted, table, columns.target or "y"
