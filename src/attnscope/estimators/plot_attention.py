"""Plot one bag: the attention of each token, and its value.

Tokens are drawn in a column (by name or number), or as tiles on a grid if they have coordinates.
The value of a token is drawn only if it has at least MIN_VALUE_ATTENTION of the attention; elsewhere
the model was not trained. Of a long bag the MAX_COLUMN_TOKENS tokens with the largest attention are
shown, with their total attention. On a grid a position without a tile stays empty, and attention has
a logarithmic scale, from MIN_DRAWN_ATTENTION on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscope.errors import bad
from attnscope.estimators.bags.bags import Bags
from attnscope.figures.figure import Figure, Heat, Line, Panel, Points
from attnscope.numerics.border import validation as check

if TYPE_CHECKING:
    from attnscope.estimators.classifier import SingleLocationClassifier
    from attnscope.estimators.regressor import SingleLocationRegressor

__all__ = ["plot_attention"]

MAX_COLUMN_TOKENS = 16  # names of more tokens would not be legible
MIN_VALUE_ATTENTION = 0.01  # below, the value of a token is not drawn
MIN_DRAWN_ATTENTION = 1e-6  # smaller attention is drawn as this
GRID_TOLERANCE_TILES = 1e-6  # coordinates this close to a grid are on it
# larger maps are not legible, and two distant points would need too much memory
MAX_TILES_PER_SIDE = 4000
PLOT_NAME = "plot_attention"


def plot_attention(
    model: SingleLocationRegressor | SingleLocationClassifier,
    bag: Any,
    labels: Sequence[Any] | None = None,
    coords: Any = None,
    head: int | None = None,
) -> Figure:
    """Attention and values of one bag's tokens under a fitted model: a `Figure` (`.save("a.png")`).

    Args:
        model: a fitted SingleLocationRegressor or SingleLocationClassifier.
        bag: (L, d), or any form of bags with one bag in it.
        labels: L words for the tokens.
        coords: (L, 2) positions x, y on a regular grid, y downwards as in images; instead of labels.
        head: number of the head, if there are several.

    >>> import attnscope as at
    >>> data = at.SingleLocation(dim=5, length=4, signal=5.0, noise=0.1).sample(60, seed=1)
    >>> model = at.SingleLocationRegressor(alpha=(np.inf, 0.1)).fit(data.tokens, data.target)
    >>> figure = plot_attention(model, data.tokens[0], labels=["a", "b", "c", "d"])
    >>> [panel.title for panel in figure.panels]
    ['attention', 'value of each token']
    """
    if not hasattr(model, "attention") or not hasattr(model, "values"):
        raise bad("model", PLOT_NAME, "a fitted SingleLocation model", type(model).__name__)
    held = model._read_bags(bag, PLOT_NAME)
    if len(held) != 1:
        raise bad(
            "bag", PLOT_NAME, "one bag", f"{len(held)} bags", "plot_attention(model, bags[0])"
        )
    one = Bags(held.tokens, held.offsets, "list")
    value = np.asarray(model.values(one, head)[0])
    weight = np.asarray(model.attention(one, head)[0])
    predicted, name, value = _prediction_and_values(model, one, value, head)
    if coords is not None:
        if labels is not None:
            raise bad("labels", PLOT_NAME, "left out where coords are given", "both")
        panels = _map_panels(weight, value, name, _tile_indices(coords, len(weight)))
    else:
        panels = _column_panels(
            weight, value, name, _token_names(labels, len(weight)), predicted
        )
    return Figure(_figure_title(model, predicted, name), panels, columns=2)


def _prediction_and_values(
    model: Any, one: Bags, value: np.ndarray, head: int | None
) -> tuple[float | None, str, np.ndarray]:
    """The prediction (None for one of several heads, which has none), its name, and the tokens'
    values (L,) in the same unit.
    """
    classes = getattr(model, "classes_", None)
    if classes is None:
        several = len(model._all_heads) > 1
        name = f"part of the label, head {head}" if several else "label"
        return None if several else float(model.predict(one)[0]), name, value
    chances = model.predict_proba(one)[0]
    if getattr(model, "assumption_", "single") == "witness":
        return None, f"P(witness of {classes[1]})", value
    which = 1 if len(classes) == 2 else int(np.argmax(chances))
    value = value if value.ndim == 1 else value[:, which]
    return float(chances[which]), f"P({classes[which]})", value


def _figure_title(model: Any, predicted: float | None, name: str) -> str:
    said = f"predicted {name} = {predicted:.3g}" if predicted is not None else name
    share = model._mean_share
    return said + (f", {100 * share:.0f} % of it from all tokens equally" if share else "")


# -- in a column -----------------------------------------------------------------------------------


def _token_names(labels: Any, count: int) -> list[str]:
    if labels is None:
        return [str(i) for i in range(count)]
    if isinstance(labels, (str, bytes)) or len(labels) != count:
        got = "one word" if isinstance(labels, (str, bytes)) else f"{len(labels)}"
        raise bad("labels", PLOT_NAME, f"one for each of {count} tokens", got)
    return [str(word) for word in labels]


def _column_panels(
    weight: np.ndarray,
    value: np.ndarray,
    name: str,
    words: list[str],
    predicted: float | None,
) -> tuple[Panel, ...]:
    shown = np.arange(len(weight))
    title = "attention"
    if len(weight) > MAX_COLUMN_TOKENS:
        shown = np.argsort(-weight, kind="stable")[:MAX_COLUMN_TOKENS]
        held = min(float(weight[shown].sum()), 1.0)
        share = f"{held:.3f}" if held <= 0.999 else "over 0.999"  # rounding must not exceed 1
        title = f"attention: {MAX_COLUMN_TOKENS} of {len(weight)} tokens, with {share} of it"
    place = np.arange(len(shown))[::-1]  # the first token is at the top
    names = tuple(words[i] for i in shown[::-1])
    gap = np.full(len(shown), np.nan)
    along = np.column_stack([np.zeros(len(shown)), weight[shown], gap]).ravel()
    stems = Line(along, np.repeat(place, 3), "attention")
    first = Panel(
        title,
        "weight",
        "token",
        (stems,),
        x_range=(-0.03, 1.05),
        y_names=names,
    )
    kept = weight[shown] >= MIN_VALUE_ATTENTION
    label = f"with {MIN_VALUE_ATTENTION:.0%} of the attention or more"
    says = Points(value[shown][kept], place[kept], label, 2)
    marks: tuple = (says,)
    if predicted is not None:
        ends = [-0.5, len(shown) - 0.5]
        marks = (says, Line([predicted, predicted], ends, "the prediction", 1, dashed=True))
    second = Panel(
        "value of each token",
        f"{name} if it decides" if predicted is not None else name,
        "token",
        marks,
        x_range=(-0.03, 1.05) if name.startswith("P(") else None,
        y_names=names,
    )
    return first, second


# -- on a grid -------------------------------------------------------------------------------------


def _tile_indices(coords: Any, count: int) -> np.ndarray:
    """Column and row (L, 2) of each tile, from 0."""
    found = check.array(coords, "coords", PLOT_NAME, (count, 2)).astype(np.float64)
    steps = [np.diff(np.unique(axis)) for axis in found.T]
    step = min((float(s.min()) for s in steps if len(s)), default=1.0)
    at = (found - found.min(axis=0)) / step
    whole = np.round(at)
    if np.abs(at - whole).max() > GRID_TOLERANCE_TILES * max(1.0, float(whole.max())):
        raise bad(
            "coords", PLOT_NAME, "places on a regular grid", f"steps other than {step:g}"
        )
    if whole.max() >= MAX_TILES_PER_SIDE:
        raise bad(
            "coords",
            PLOT_NAME,
            f"at most {MAX_TILES_PER_SIDE} tiles a side",
            f"{whole.max() + 1:.0f}",
        )
    if len(np.unique(whole, axis=0)) < count:
        raise bad("coords", PLOT_NAME, "one place for each token", "two tokens at one place")
    return whole.astype(int)


def _map_panels(
    weight: np.ndarray, value: np.ndarray, name: str, place: np.ndarray
) -> tuple[Panel, ...]:
    column, row = place.T
    width, height = place.max(axis=0) + 1
    top = int(np.argmax(weight))
    most = Points([column[top]], [row[top]], "most attention", 1)

    def heat(z: np.ndarray, label: str, log: bool) -> Heat:
        picture = np.full((height, width), np.nan)
        picture[row, column] = z
        return Heat(np.arange(width), np.arange(height), picture, label, log)

    first = heat(
        np.maximum(weight, MIN_DRAWN_ATTENTION),
        f"weight ({MIN_DRAWN_ATTENTION:g} or more)",
        True,
    )
    says = np.where(weight >= MIN_VALUE_ATTENTION, value, np.nan)
    second = heat(says, name, False)

    def panel(title: str, *marks: Any) -> Panel:
        x = (-0.5, float(width) - 0.5)
        y = (float(height) - 0.5, -0.5)
        return Panel(title, "tile column", "tile row, downwards", marks, x_range=x, y_range=y)

    return (
        panel("attention", first, most),
        panel(f"values of tiles with {MIN_VALUE_ATTENTION:.0%} or more", second),
    )
