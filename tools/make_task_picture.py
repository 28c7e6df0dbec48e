"""Draw the task of the front page, from one sequence that the library draws and attends to:
`python tools/make_task_picture.py` writes docs/pictures/task-light.svg and task-dark.svg.

`--check` exits with 1 where the files are not what the code draws. Each token is a strip of its
coordinates (orange positive, blue negative, in the basis whose first two directions are k* and v*),
below it its score X.k*, the weight that softmax attention gives it, and its value X.v*.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import numpy as np

import attnscope as at

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
# ink, paper's shade of an empty bar, positive, negative; contrast of the ink with furo's papers > 7
COLORS = {
    "light": ("#1b1f24", "#e6e8eb", "#c2540a", "#0a66b5"),
    "dark": ("#e6e8eb", "#30363d", "#ff9a52", "#6db5ff"),
}
DIM = 10  # few enough to see
LENGTH = 8
INVERSE_TEMPERATURE = 1.5
SEED = 17
COLUMN = 58  # width of a token's column; the rest follows
LEFT = 150
CELL = 14
FONT = "font-family='system-ui, sans-serif'"


def numbers() -> dict[str, np.ndarray]:
    """One sequence, with what attention makes of it."""
    task = at.SingleLocation(dim=DIM, length=LENGTH, signal=4.0)
    batch = task.sample(1, seed=SEED)
    tokens = batch.tokens[0]
    predictor = at.Softmax(INVERSE_TEMPERATURE)
    weights = at.attention_weights(predictor, task.key, batch.tokens)[0]
    guess = at.predict(predictor, task.key, task.value, batch.tokens)[0]
    # a basis that begins with k* and v*
    start = np.column_stack([task.key, task.value, np.eye(DIM)])
    basis, _ = np.linalg.qr(start)
    basis[:, :2] = start[:, :2]
    return {
        "cells": tokens @ basis[:, :DIM],
        "score": tokens @ task.key,
        "weight": weights,
        "value": tokens @ task.value,
        "guess": guess,
        "target": batch.target[0],
        "location": batch.location[0],
    }


def picture(theme: str) -> str:
    """The SVG of a theme."""
    ink, empty, plus, minus = COLORS[theme]
    seen = numbers()
    parts: list[str] = []
    width = LEFT + LENGTH * COLUMN + 20
    where = int(seen["location"])

    def words(x: float, y: float, text: str, anchor: str = "start", size: int = 13) -> None:
        about = f"text-anchor='{anchor}' font-size='{size}' fill='{ink}' {FONT}"
        parts.append(f"<text x='{x:.1f}' y='{y:.1f}' {about}>{escape(text)}</text>")

    def bar(x: float, y: float, w: float, h: float, fill: str, opacity: float = 1.0) -> None:
        size = f"x='{x:.1f}' y='{y:.1f}' width='{w:.1f}' height='{h:.1f}'"
        parts.append(f"<rect {size} fill='{fill}' fill-opacity='{opacity:.2f}'/>")

    top = 40
    for j in range(LENGTH):
        words(LEFT + (j + 0.5) * COLUMN, 26, f"token {j + 1}", "middle", 12)
    scale = np.abs(seen["cells"]).max()
    for j, i in np.ndindex(LENGTH, DIM):
        x = seen["cells"][j, i]
        place = (LEFT + j * COLUMN + 16, top + i * CELL, COLUMN - 32, CELL - 1)
        bar(*place, plus if x > 0 else minus, max(0.06, abs(x) / scale))
    words(8, top + 11, "along k*")
    words(8, top + 11 + CELL, "along v*")
    words(8, top + DIM * CELL / 2 + 18, "the rest is noise")
    y = top + DIM * CELL + 26
    for name, told in (
        ("score", "score  X·k*"),
        ("weight", "attention weight"),
        ("value", "value  X·v*"),
    ):
        words(8, y + 16, told)
        largest = np.abs(seen[name]).max()
        for j in range(LENGTH):
            x = float(seen[name][j])
            left = LEFT + j * COLUMN + 6
            bar(left, y + 4, COLUMN - 12, 14, empty)
            bar(left, y + 4, (COLUMN - 12) * abs(x) / largest, 14, plus if x > 0 else minus)
            words(left + (COLUMN - 12) / 2, y + 32, f"{x:.2f}", "middle", 11)
        y += 46
    box = f"x='{LEFT + where * COLUMN + 2}' y='10' width='{COLUMN - 4}' height='{y - 14}'"
    parts.append(f"<rect {box} fill='none' stroke='{ink}' stroke-width='2' rx='5'/>")
    words(LEFT + (where + 0.5) * COLUMN, y + 14, "decides", "middle", 12)
    guess, truth = float(seen["guess"]), float(seen["target"])
    y += 38
    words(8, y, f"prediction: weights times values, {guess:.2f}; the label is {truth:.2f}.")
    about = (
        f"Eight tokens as strips of coordinates. Token {where + 1} stands out along k*, has the "
        f"largest score, gets weight {seen['weight'][where]:.2f}, and its value decides the label."
    )
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {y + 14}' role='img'"
    )
    label = f"aria-label='{escape(about, quote=True)}'"
    return f"{head} {label}>\n" + "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    stale = []
    for theme in COLORS:
        path = FOLDER / f"task-{theme}.svg"
        text = picture(theme)
        if "--check" in sys.argv:
            stale += [path.name] if not path.exists() or path.read_text() != text else []
        else:
            path.write_text(text)
    if stale:
        sys.exit(f"not what the code draws: {', '.join(stale)}; run {Path(__file__).name}")
