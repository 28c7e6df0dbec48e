"""The options of `attnscope fit` that an estimator takes: each None where it is left out, so that the
estimator's own default holds.
"""

from __future__ import annotations

from typing import Annotated

import typer

from attnscope.cli.completion import some_of

__all__ = [
    "Alpha",
    "Assumption",
    "Classify",
    "Components",
    "Gate",
    "Groups",
    "Heads",
    "Interval",
    "Loss",
    "MaxSeconds",
    "Pooling",
    "Robust",
    "Starts",
]

Groups = Annotated[
    str | None,
    typer.Option(
        help="Bags that belong together (patient, image): array, column, or a .csv or "
        ".parquet file of names and groups."
    ),
]
Interval = Annotated[
    str | None,
    typer.Option(
        help="How intervals and sets are measured: cross, split or cv+.",
        autocompletion=some_of("cross", "split", "cv+"),
    ),
]
Assumption = Annotated[
    str | None,
    typer.Option(
        help="Two classes: single (one token decides), witness (tokens speak for the second "
        "class only) or auto.",
        autocompletion=some_of("single", "witness", "auto"),
    ),
]
Classify = Annotated[
    bool | None,
    typer.Option(
        "--classify/--regress",
        help="Left out: words, booleans and two whole numbers are classes.",
    ),
]
Gate = Annotated[
    str | None,
    typer.Option(
        help="linear, quadratic, random-features or auto.",
        autocompletion=some_of("linear", "quadratic", "random-features", "auto"),
    ),
]
Pooling = Annotated[
    str | None,
    typer.Option(
        help="softmax, sigmoid or auto.",
        autocompletion=some_of("softmax", "sigmoid", "auto"),
    ),
]
Loss = Annotated[
    str | None,
    typer.Option(
        help="mixture, attention or auto.",
        autocompletion=some_of("mixture", "attention", "auto"),
    ),
]
Alpha = Annotated[str | None, typer.Option(help="Ridge: cv, a number, or two, gate,value.")]
Heads = Annotated[int | None, typer.Option(help="Number of heads.")]
Starts = Annotated[int | None, typer.Option(help="Number of starting points.")]
Robust = Annotated[
    bool | None, typer.Option("--robust/--no-robust", help="Tokens with heavy tails.")
]
Components = Annotated[
    str | None,
    typer.Option(help="Directions of the tokens: auto, a number, or all for every feature."),
]
MaxSeconds = Annotated[
    float | None, typer.Option(help="Seconds after which the best so far is taken.")
]
