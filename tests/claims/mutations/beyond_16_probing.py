"""What makes the sentences of beyond-16 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_fit_all_layers",)


def _answers(field, change, splits):
    """Answers of one model that are others in some splits."""

    def layer(found):
        return {
            name: answers._replace(**{field: change(answers)}) if name in splits else answers
            for name, answers in found.items()
        }

    return lambda fitted: (
        lambda context: (lambda f: f._replace(layers=[layer(x) for x in f.layers]))(
            fitted(context)
        )
    )


def _half_right(found):
    """Right in every second sentence."""
    return np.arange(len(found.ridge)) % 2 == 0


ALL = ("train", "test", "unseen adjectives", "unseen structure", "unseen both")

MUTATIONS = (
    *moved("embedding", "EMBEDDING_ACCURACY", by=0.01),
    *replaced(
        "embedding",
        "the CLS state holds the label at the embedding layer",
        "_fit_all_layers",
        _answers("ridge", lambda found: np.ones(len(found.ridge), bool), ALL),
    ),
    *replaced(
        "separable",
        "the CLS state never holds the label",
        "_fit_all_layers",
        _answers("ridge", _half_right, ALL),
    ),
    *replaced(
        "falls",
        "unseen adjectives and structures cost nothing",
        "_fit_all_layers",
        _answers("ridge", lambda found: found.located, ALL),
    ),
    *replaced(
        "unseen",
        "unseen adjectives and structures cost nothing",
        "_fit_all_layers",
        _answers("ridge", lambda found: found.located, ALL),
    ),
    *replaced(
        "located",
        "the adjective is located in every second sentence",
        "_fit_all_layers",
        _answers("located", _half_right, ALL),
    ),
    *replaced(
        "told",
        "the attention model is right in every second sentence",
        "_fit_all_layers",
        _answers("found", _half_right, ALL),
    ),
    *replaced(
        "told-unseen",
        "the attention model is right in every second unseen sentence",
        "_fit_all_layers",
        _answers("found", _half_right, ALL[2:]),
    ),
)

REBUILT = dict.fromkeys(
    (
        "ridge against discriminant probe",
        "[CLS] probe, logistic against ridge, layers 1..6",
        "adjective located, worst split",
    ),
    "left out: no sentence names it",
)
