"""Real tokens: bags of digits, sentences as static MiniLM tokens, musk1 and elephant. Data come
from attnscope.corpora.

digits   v.x of one image of eight: the one where it is largest ("max"), the only 0 ("key"), the
    only 8 ("8"); training and test bags are
           drawn alike, from all images (with disjoint images no interval learnt in training could
           keep its promise)
text       the class of one adjective in a sentence; other sentences at test
musk1, elephant   five stratified folds per seed, the seed deals the folds: 25 held-out parts in all
    with five seeds
"""

from __future__ import annotations

from cases import Split
from sklearn.model_selection import StratifiedKFold

from attnscope.corpora.digits import digit_bags
from attnscope.corpora.mil import load_mil
from attnscope.corpora.sentences import draw_sentences
from attnscope.corpora.text import text_bags

TEST = 2000


def digits(n, rule):
    def make(seed):
        train = digit_bags(n, rule, seed=10 + seed, readout_seed=seed)
        test = digit_bags(TEST, rule, seed=1000 + seed, readout_seed=seed)
        return [
            Split(
                train.tokens,
                train.target,
                test.tokens,
                test.target,
                train.location,
                test.location,
            )
        ]

    return make


def text(n):
    def make(seed):
        train = text_bags(draw_sentences(n, "train", seed=seed))
        test = text_bags(draw_sentences(TEST, "test", seed=1000 + seed))
        return [
            Split(
                train.bags,
                train.label,
                test.bags,
                test.label,
                train.location,
                test.location,
                classes=True,
            )
        ]

    return make


def mil(name):
    def make(seed):
        data = load_mil(name)
        take = lambda rows: ([data.bags[i] for i in rows], data.label[rows])
        folds = StratifiedKFold(5, shuffle=True, random_state=seed).split(
            data.label, data.label
        )
        return [Split(*take(train), *take(test), classes=True) for train, test in folds]

    return make


CASES = {
    "digits max n=400": digits(400, "max"),
    "digits key n=150": digits(150, "key"),
    "digits 8 n=600": digits(600, "eight"),
    "text n=60": text(60),
    "text n=300": text(300),
    "musk1": mil("musk1"),
    "elephant": mil("elephant"),
}
