"""
What attention learns about topics
==================================

Documents mix disjoint topics. The exact posterior of a held-out word is one attention layer: equal
scores, values that are blocks of words of one topic, and a sink that holds the prior. Where a word is
shown at its own place but may be wrong, keys and queries matter: the best scores are exact too.
"""

import sys

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Heat, Line, Panel


def main(out: str = "topic_attention.png", n: int = 2000) -> None:
    task = at.TopicMixture(topics=4, words=5, concentration=0.3)
    batch = task.sample(n, length=20, seed=0)
    layer = task.posterior_attention()
    prior = np.exp(layer.sink) * layer.sink_value
    said = (layer.values[batch.tokens].sum(axis=1) + prior) / (20 + np.exp(layer.sink))
    print(f"layer - posterior: {np.abs(said - task.bayes_predict(batch.tokens)).max():.1e}")
    error = np.mean(np.sum((batch.target - said) ** 2, axis=1))
    print(
        f"squared error on {n} documents {error:.4f}, exact {task.bayes_risk(20).value:.4f}"
    )

    shown = np.linspace(0.05, 0.9, 18)
    best = [task.attention_optimum(20, float(c)) for c in shown]
    scores = (
        Line(shown, [b.same_topic for b in best], "same topic", 0),
        Line(shown, [b.same_word for b in best], "same word", 1),
    )
    learnt = task.masked_optimum(20)
    same_topic = layer.values > 0
    values = learnt.same_word * np.eye(20) + learnt.same_topic * same_topic + learnt.constant
    words = np.arange(20)
    panels = (
        Panel(
            "values of masked training", "word shown", "word predicted",
            (Heat(words, words, values, "value"),),
        ),
        Panel("best scores, 20 positions", "shown word right", "score", scores),
    )  # fmt: skip
    Figure("Topics: what values and scores learn", panels, columns=2).save(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
