"""Bags, a fit, and which token decided: predictions beside the truth, attention bag by bag,
one bag in detail, warnings in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from attnscope.figures.figure import Figure, Heat, Line, Mark, Panel, Points
from attnscope.figures.render_plotly import plotly_dict
from attnscope_explorer.pixels import data_uri
from attnscope_explorer.python_lines import HEADER, computed
from attnscope_explorer.state import State
from attnscope_explorer.uploads import upload_path
from attnscope_explorer.view_result import ViewResult, number
from attnscope_explorer.views.bags_stage import (
    add_bag_stage,
    single_token_answers,
    true_class_probability,
)
from attnscope_explorer.views.stems import stems

__all__ = ["bags"]

MAP_BAGS = 30  # bags in the map of attention: more would be thinner than a finger
# colours of the tokens, of the one the model chose, and of the one that decided
OTHER_COLOUR = 0
CHOSEN_COLOUR = 1
DECIDING_COLOUR = 2


def bags(state: State) -> ViewResult:
    """The view; looking at another bag does not fit again."""
    path = upload_path(state.upload) if state.data == "upload" else None
    names = _fitted_names(lines(state, "path" if path else None), str(path))
    i = min(state.bag, len(names["test_y"])) - 1
    figure = _figure(names, i)
    code = lines(state, f"bags{path.suffix}" if path else None)
    hidden = frozenset({"upload"})
    header = (
        "on bags held out",
        "loss",
        "right" if names["classes"] else "explained",
        "located",
    )
    return ViewResult(
        figure,
        add_bag_stage(_without_colour_bars(plotly_dict(figure)), state, names, i),
        header,
        _rows(names),
        code,
        _note(names, i),
        hidden,
        words=_words(names, i),
        images=_images(names, i),
    )


@lru_cache(maxsize=4)  # a fit takes seconds, and every look at another bag asks for it again
def _fitted_names(code: str, path: str) -> dict[str, Any]:
    return computed(code, path=path)


def lines(state: State, path: str | None) -> str:
    """`path` is the name that the code gives to the uploaded file;
    "path" where that is a variable.
    """
    source, classes = SOURCES[state.data]
    return f"""{HEADER}
{source(state, path)}
classes = {classes}
model = (at.SingleLocationClassifier if classes else at.SingleLocationRegressor)(loss="{state.loss}")
model.fit(fit_bags, fit_y{", groups=zero" if state.data == "digits" else ""})

prediction, located = model.predict(test_bags), model.locate(test_bags)
attention = model.attention(test_bags)
spread = model.predict_proba(test_bags) if classes else model.predict_interval(test_bags, 0.9)
diagnosis = model.diagnose(test_bags, test_y)
# each token as a bag of its own: what it would answer if it decided
answer = model.predict_proba if classes else model.predict
alone = [answer([token[None, :] for token in np.asarray(bag)]) for bag in test_bags]
"""


def _digit_lines(state: State, path: str | None) -> str:
    return f"""from attnscope.corpora.digits import digit_bags

# 8 images a bag; the label is a random linear function of the only 0 among them
train = digit_bags(240, rule="key", part="train", seed={state.seed})
test = digit_bags(100, rule="key", part="test", seed={state.seed + 1})
fit_bags, fit_y = train.tokens, train.target
decides = train.tokens[np.arange(240), train.location]  # some images stand in several bags:
zero = np.unique(decides, axis=0, return_inverse=True)[1]  # those of one 0 belong together
test_bags, test_y, truth = test.tokens, test.target, test.location
"""


def _text_lines(state: State, path: str | None) -> str:
    return f"""from attnscope.corpora.sentences import draw_sentences
from attnscope.corpora.text import text_bags

# one adjective decides whether the sentence is kind (1) or not (0)
train = text_bags(draw_sentences(120, seed={state.seed}))
test = text_bags(draw_sentences(60, split="test", seed={state.seed + 1}))
centre = np.concatenate(train.bags).mean(axis=0)  # static word vectors, in 40 principal directions
basis = np.linalg.svd(np.concatenate(train.bags) - centre, full_matrices=False)[2][:40].T
fit_bags, test_bags = ([(bag - centre) @ basis for bag in part.bags] for part in (train, test))
fit_y, test_y, truth, words = train.label, test.label, test.location, test.words
"""


def _drawn_lines(state: State, path: str | None) -> str:
    return f"""task = at.SingleLocation(dim=20, length=10, signal=3.5, noise=0.1)
train, test = task.sample(300, seed={2 * state.seed}), task.sample(100, seed={2 * state.seed + 1})
fit_bags, fit_y = train.tokens, train.target
test_bags, test_y, truth = test.tokens, test.target, test.location
"""


def _upload_lines(state: State, path: str | None) -> str:
    load = "" if path == "path" else f"path = {path!r}  # your file\n"
    return f"""from itertools import pairwise

from attnscope.estimators.bags.tables import Columns, is_classes, read_table

{load}table = read_table(path, Columns(bag="bag", target="y"))
every = [table.bags.tokens[a:b] for a, b in pairwise(table.bags.offsets)]
order = np.random.default_rng({state.seed}).permutation(len(every))
fit, test = order[len(every) // 3 :], order[: len(every) // 3]  # a third is held out
fit_bags, fit_y = [every[i] for i in fit], table.target[fit]
test_bags, test_y = [every[i] for i in test], table.target[test]
truth = None
"""


# the lines of each kind of data, and whether its labels are classes, as an expression
SOURCES: dict[str, tuple[Callable[..., str], str]] = {
    "digits": (_digit_lines, "False"),
    "text": (_text_lines, "True"),
    "drawn": (_drawn_lines, "False"),
    "upload": (_upload_lines, "is_classes(table.target)"),
}


# -- the figure ------------------------------------------------------------------------------------


def _figure(names: dict[str, Any], i: int) -> Figure:
    panels = (
        _predictions(names, i),
        _attention_map(names),
        _one_bag(names, i),
        _single_token_panel(names, i),
    )
    return Figure("bags and the tokens that decided", panels, columns=2)


def _without_colour_bars(plotly: dict[str, Any]) -> dict[str, Any]:
    """Attention from 0 to 1 needs no colour bar."""
    for trace in plotly["data"]:
        if trace["type"] == "heatmap":
            trace |= {"showscale": False, "zmin": 0, "zmax": 1, "zauto": False}
    return plotly


def _predictions(names: dict[str, Any], i: int) -> Panel:
    y = names["test_y"]
    p = names["prediction"]
    spread = names["spread"]
    if names["classes"]:
        share = true_class_probability(names)
        order = np.argsort(-share)
        right = (p == y)[order]
        rank = np.arange(1, len(y) + 1)
        found = ((right, "right", DECIDING_COLOUR), (~right, "wrong", CHOSEN_COLOUR))
        dots = tuple(
            Points(rank[ok], share[order][ok], name, color) for ok, name, color in found
        )
        return Panel(
            "probability of the true class",
            "bags, sorted",
            "probability",
            dots,
            y_range=(-0.03, 1.03),
        )
    half = (spread[:, 1] - spread[:, 0]) / 2
    ends = [float(y.min()), float(y.max())]
    this = Points(y[[i]], p[[i]], f"bag {i + 1}", CHOSEN_COLOUR)
    marks = (
        Points(y, p, "bags with 90 % intervals", OTHER_COLOUR, half),
        this,
        Line(ends, ends, "", 6, dashed=True),
    )
    return Panel("prediction against truth", "label", "prediction", marks)


def _attention_map(names: dict[str, Any]) -> Panel:
    rows = [np.asarray(a) for a in list(names["attention"])[:MAP_BAGS]]
    width = max(map(len, rows))
    z = np.array([np.pad(a, (0, width - len(a)), constant_values=np.nan) for a in rows])
    bag = np.arange(1, len(rows) + 1)
    token = np.arange(1, width + 1)
    marks: list[Mark] = [Heat(token, bag, z, "attention")]
    if names["truth"] is not None:
        marks.append(
            Points(
                names["truth"][: len(rows)] + 1, bag, "token that decided", DECIDING_COLOUR
            )
        )
    limits = {"x_range": (0.5, width + 0.5), "y_range": (len(rows) + 0.5, 0.5)}
    return Panel("attention, bag by bag", "token", "bag", tuple(marks), **limits)  # type: ignore[arg-type]


def _token_stems(names: dict[str, Any], i: int, values: np.ndarray) -> list[Mark]:
    """A stem per token: the one the model chose and, where it is another,
    the one that decided stand out.
    """
    token = np.arange(len(values))
    chosen = int(names["located"][i])
    groups = [(token == chosen, "chosen token", CHOSEN_COLOUR)]
    if names["truth"] is not None and int(names["truth"][i]) != chosen:
        groups.append(
            (token == int(names["truth"][i]), "token that decided", DECIDING_COLOUR)
        )
    rest = ~np.any([mask for mask, _, _ in groups], axis=0)
    marks: list[Mark] = []
    for mask, label, color in [(rest, "other tokens", OTHER_COLOUR), *groups]:
        marks += stems(token[mask] + 1.0, values[mask], label, color)
    return marks


def _one_bag(names: dict[str, Any], i: int) -> Panel:
    weights = np.asarray(names["attention"][i])
    marks = tuple(_token_stems(names, i, weights))
    across = (0.4, len(weights) + 0.6)
    return Panel(
        f"attention in bag {i + 1}",
        "token",
        "attention",
        marks,
        x_range=across,
        y_range=(-0.03, 1.05),
    )


def _single_token_panel(names: dict[str, Any], i: int) -> Panel:
    answers, title = single_token_answers(names, i)
    across = (0.4, len(answers) + 0.6)
    label = [] if names["classes"] else [float(names["test_y"][i])] * 2
    line = [Line(across, label, "label", 5, dashed=True)] if label else []
    y_label = "answer" if label else "probability"
    marks = (*line, *_token_stems(names, i, answers))
    return Panel(title, "token", y_label, marks, x_range=across)


# -- words and images ------------------------------------------------------------------------------


Token = tuple[
    str, float, bool
]  # what is shown of it, its attention, and whether it was chosen


def _words(names: dict[str, Any], i: int) -> tuple[Token, ...]:
    return _with_attention(names, i, names["words"][i]) if "words" in names else ()


def _images(names: dict[str, Any], i: int) -> tuple[Token, ...]:
    """The bag's tokens as pictures, where they are: digits of 8 by 8 pixels, ink from 0 to 1."""
    if not hasattr(names.get("test"), "digit"):
        return ()
    pictures = np.asarray(names["test_bags"][i]).reshape(-1, 8, 8)
    return _with_attention(names, i, map(data_uri, pictures))


def _with_attention(names: dict[str, Any], i: int, shown: Iterable[str]) -> tuple[Token, ...]:
    chosen = int(names["located"][i])
    pairs = enumerate(zip(shown, names["attention"][i]))
    return tuple((text, float(weight), j == chosen) for j, (text, weight) in pairs)


def _rows(names: dict[str, Any]) -> list[tuple[str, ...]]:
    y = names["test_y"]
    d = names["diagnosis"]
    found = (
        "" if names["truth"] is None else f"{np.mean(names['located'] == names['truth']):.0%}"
    )
    if names["classes"]:
        _, counts = np.unique(names["fit_y"], return_counts=True)
        usual = np.unique(names["fit_y"])[np.argmax(counts)]
        plain = ("always the commonest class", "", f"{np.mean(y == usual):.0%}", "")
        return [
            ("this model", number(d.loss), f"{np.mean(names['prediction'] == y):.0%}", found),
            ("mean pooling", number(d.mean_pool_loss), "", ""),
            plain,
        ]
    null = float(np.mean((y - names["fit_y"].mean()) ** 2))
    share = lambda loss: f"{1 - loss / null:.1%}" if null > 0 else ""
    return [
        ("this model", number(d.loss), share(d.loss), found),
        ("mean pooling", number(d.mean_pool_loss), share(d.mean_pool_loss), ""),
        ("always the mean", number(null), share(null), ""),
    ]


def _note(names: dict[str, Any], i: int) -> str:
    kind = "minus the log probability of the class" if names["classes"] else "squared error"
    p = names["prediction"][i]
    chosen = int(names["located"][i]) + 1
    shown = f"{p!s}" if names["classes"] else number(float(p))
    label = (
        f"{names['test_y'][i]!s}" if names["classes"] else number(float(names["test_y"][i]))
    )
    return (
        f"Bag {i + 1}: label {label}, prediction {shown}, decided by token {chosen} according to "
        "the model. "
        f"Loss is {kind}. {_location_note(names)}Diagnosis, from the labels alone: "
        f"{' '.join(str(names['diagnosis']).split())}"
    )


def _location_note(names: dict[str, Any]) -> str:
    """What the diagnosis, which sees labels alone, cannot say."""
    if names["truth"] is None:
        return ""
    right = float(np.mean(names["located"] == names["truth"]))
    return f"Here one knows which token decided: the model names it in {right:.0%} of these bags. "
