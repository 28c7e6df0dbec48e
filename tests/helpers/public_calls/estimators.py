"""Calls of estimators, transformers and data."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import attnscope as at
from helpers.public_calls.examples import BAGS, CLASSES, LABELS, ONES, RNG, add, later


@cache
def folder():
    """Bags in files."""
    place = Path(tempfile.mkdtemp())
    for name, bag in zip("abcd", BAGS):
        np.save(place / f"{name}.npy", bag)
    return place


@cache
def memory_map():
    """Bags in a file that is read a piece at a time."""
    np.save(folder().parent / f"{folder().name}.npy", BAGS)
    return np.load(folder().parent / f"{folder().name}.npy", mmap_mode="r")


@cache
def regressor():
    return at.SingleLocationRegressor(alpha=(np.inf, 0.1), components=None).fit(BAGS, LABELS)


@cache
def classifier():
    return at.SingleLocationClassifier(alpha=(np.inf, 0.1), components=None).fit(
        BAGS, CLASSES
    )


def frame(**columns):
    import pandas as pd

    numbers = {"bag": ["a", "a", "b"], "u": [1.0, 2.0, 3.0], "y": [1, 1, 0]}
    return pd.DataFrame(numbers | columns)


for kind in ("BagScaler", "BagPCA", "BagPooling"):
    add(f"{kind}.fit", lambda bags, kind=kind: getattr(at, kind)().fit(bags), bags=BAGS)
    add(
        f"{kind}.transform",
        lambda bags, kind=kind: getattr(at, kind)().fit(BAGS).transform(bags),
        bags=BAGS,
    )
add("BagPCA (fit)", lambda n_components: at.BagPCA(n_components).fit(BAGS), n_components=1)
FITTED = {"SingleLocationRegressor": LABELS, "SingleLocationClassifier": CLASSES}
GROUPS, WHERE = np.arange(12) // 2, np.zeros(12, int)


def fresh(kind, method, **options):
    """The method of a new model at each call."""
    small = {"alpha": (np.inf, 0.1), "components": None} | options
    return lambda **given: getattr(getattr(at, kind)(**small), method)(**given)


for kind, y in FITTED.items():
    labelled = {"bags": BAGS, "y": y}
    fit = fresh(kind, "fit")
    add(f"{kind}.fit", fit, **labelled, sample_weight=ONES, groups=GROUPS)
    add(f"{kind}.fit (locations)", fit, **labelled, locations=WHERE)
    add(f"{kind}.fit (list)", fit, bags=list(BAGS), y=list(y))
    add(f"{kind}.fit (mask)", fit, bags=(BAGS, np.ones((12, 3), bool)), y=y)
    add(
        f"{kind}.fit (ids)", fit, bags=(BAGS.reshape(-1, 2), np.repeat(np.arange(12), 3)), y=y
    )
    add(f"{kind}.partial_fit", fresh(kind, "partial_fit"), **labelled, sample_weight=ONES)
    add(
        f"{kind}.fit_batches",
        lambda bags, y, sample_weight, passes, kind=kind: fresh(kind, "fit_batches")(
            batches=[(bags, y, sample_weight)], passes=passes
        ),
        **labelled,
        sample_weight=ONES,
        passes=3,
    )
    add(
        f"{kind}.fit_batches (memory map)",
        fresh(kind, "fit_batches"),
        batches=memory_map(),
        y=y,
        passes=3,
        sample_weight=ONES,
    )
    fitted = regressor if kind.endswith("Regressor") else classifier
    add(f"{kind}.attention", later(fitted, getattr(at, kind), "attention"), bags=BAGS, head=0)
    add(f"{kind}.locate", later(fitted, getattr(at, kind), "locate"), **labelled, head=0)
    add(f"{kind}.scores", later(fitted, getattr(at, kind), "scores"), bags=BAGS, head=0)
    add(f"{kind}.values", later(fitted, getattr(at, kind), "values"), bags=BAGS, head=0)
    add(f"{kind}.predict", later(fitted, getattr(at, kind), "predict"), bags=BAGS)
    add(
        f"{kind}.score",
        later(fitted, getattr(at, kind), "score"),
        **labelled,
        sample_weight=ONES,
    )
    add(
        f"{kind}.diagnose",
        later(fitted, getattr(at, kind), "diagnose"),
        **labelled,
        groups=GROUPS,
    )
    add(
        f"{kind}.calibrate_locations",
        later(fitted, getattr(at, kind), "calibrate_locations"),
        bags=BAGS,
        locations=WHERE,
        groups=GROUPS,
    )
    add(
        f"{kind}.locate_set",
        later(fitted, getattr(at, kind), "locate_set"),
        bags=BAGS,
        coverage=0.5,
        head=0,
    )
    add(
        f"{kind}.promised_coverage",
        later(fitted, getattr(at, kind), "promised_coverage"),
        coverage=0.5,
    )
add(
    "SingleLocationRegressor.predict_interval",
    later(regressor, at.SingleLocationRegressor, "predict_interval"),
    bags=BAGS,
    coverage=0.5,
)
for method in ("predict_proba", "decision_function"):
    add(
        f"SingleLocationClassifier.{method}",
        later(classifier, at.SingleLocationClassifier, method),
        bags=BAGS,
    )
add(
    "SingleLocationClassifier.predict_set",
    later(classifier, at.SingleLocationClassifier, "predict_set"),
    bags=BAGS,
    coverage=0.5,
)
for name, value in {
    "alpha": (np.inf, 0.1),
    "heads": 1,
    "n_starts": 2,
    "components": 2,
    "max_seconds": 60.0,
    "random_state": 0,
}.items():
    add(
        f"SingleLocationRegressor ({name})",
        lambda **given: at.SingleLocationRegressor(**({"alpha": (np.inf, 0.1)} | given)).fit(
            BAGS, LABELS
        ),
        **{name: value},
    )
add(
    "SingleLocationClassifier (class_weight)",
    lambda zero, one: at.SingleLocationClassifier(
        alpha=(np.inf, 0.1), class_weight={0: zero, 1: one}
    ).fit(BAGS, CLASSES),
    zero=1.0,
    one=2.0,
)
LINE = {
    "tokens": RNG.standard_normal((20, 4, 2)),
    "query": RNG.standard_normal((20, 2)),
    "target": RNG.standard_normal((20, 1)),
}


@cache
def line_fit():
    return at.fit_linear_attention(**LINE)


add(
    "fit_linear_attention",
    at.fit_linear_attention,
    **LINE,
    mask=np.ones((20, 4), bool),
    ridge=0.1,
)
add(
    "LinearAttentionFit.predict",
    later(line_fit, at.LinearAttentionFit, "predict"),
    tokens=LINE["tokens"],
    query=LINE["query"],
    mask=np.ones((20, 4), bool),
)
add(
    "LinearAttentionFit.heads",
    later(line_fit, at.LinearAttentionFit, "heads"),
    k=2,
    tolerance=1e-6,
    seed=0,
)
add(
    "intrinsic_dimension",
    at.intrinsic_dimension,
    tokens=RNG.standard_normal((30, 3)),
    most=25,
    seed=0,
)
add(
    "plot_attention",
    lambda bag, coords, head: at.plot_attention(regressor(), bag, None, coords, head),
    bag=BAGS[0],
    coords=np.eye(3)[:, :2],
    head=0,
)
FIELD = RNG.standard_normal((2, 400))
add(
    "spatial_context",
    at.spatial_context,
    scores=FIELD[0],
    features=FIELD[1][:, None],
    grid=(20, 20),
    radius=1,
)
add("bags_from_frame", lambda y: at.bags_from_frame(frame(y=y), target="y"), y=[1, 1, 0])
add(
    "bags_from_frame (tokens)",
    lambda u: at.bags_from_frame(frame(u=u), target="y"),
    u=[1.0, 2.0, 3.0],
)
add("open_bags", at.open_bags, path=folder(), labels=[0, 1, 0, 1])
add(
    "open_bags (mapping)",
    lambda a: at.open_bags(folder(), labels={"a": a, "b": 1, "c": 0, "d": 1}),
    a=0,
)
add("OpenBags.coords", at.open_bags(folder()).coords, i=0)
add("digit_bags", at.digit_bags, n=3, length=4, noise=0.1, seed=0, readout_seed=0)
add("draw_sentences", at.draw_sentences, n=2, seed=0)
add("RatedText.take", at.RatedText(["a", "b"], np.array([1.0, 2.0])).take, rows=np.array([0]))
add("reproduce", at.reproduce, only="slr-01*", seed=0, workers=1, progress=False)


def area(x):
    return {"area": x * x}


add(
    "sweep",
    lambda x: at.sweep(area, {"x": x}, tempfile.mkdtemp(), progress=False),
    x=[1.0, 2.0],
)
