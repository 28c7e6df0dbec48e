"""The two claims about text: contract, the identities they rest on,
and what they say without the encoder.
"""

from itertools import permutations, product

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, claim, ids
from helpers.tolerances import SOLVED

from attnscope.claims.claim import Context
from attnscope.claims.verdict import run_claim
from attnscope.corpora import installed, minilm, sentences
from attnscope.corpora import stored_states as stored
from attnscope.corpora.text import deciding_token
from attnscope_claims.beyond import beyond_16_probing as probing
from attnscope_claims.beyond import beyond_17_linear_structure as structure

TEXT = ids("beyond", ["16", "17"])
try:
    minilm.minilm_path()
    ABSENT = ""
except installed.NotInstalled as reason:
    ABSENT = str(reason)


@pytest.mark.skipif(bool(ABSENT), reason=ABSENT or "installed")
@pytest.mark.parametrize("name", TEXT)
class TestContract(ClaimContract):
    pass


@pytest.fixture
def no_encoder(monkeypatch):
    def absent(package):
        raise installed.PackageNotFoundError(package)

    minilm._load_tokenizer.cache_clear()
    minilm._load_weights.cache_clear()
    monkeypatch.setattr(installed, "distribution", absent)


@pytest.mark.parametrize("name", TEXT)
def test_without_the_encoder_a_reduced_variant_runs_and_says_so(name, no_encoder):
    verdict = run_claim(claim(name), Context(seed=0))
    assert verdict.holds is True and verdict.kind == "condition" and verdict.as_expected
    condition = verdict.record()["condition"]
    assert condition.startswith("reduced variant on stored states of")
    assert "install with pip install tokenizers safetensors" in condition
    assert "of this size with --full too" in condition
    assert verdict.notes.startswith("Stored states: see the condition.")
    assert len(verdict.comparisons) >= 6
    assert not [c.what for c in verdict.comparisons if c.perturbed().holds]


def test_stored_sentences_are_the_ones_drawn(no_encoder):
    """Word pieces lie where the texts have them, and one begins where the deciding word does."""
    given = stored.split_states({}, seed=5)
    assert list(given.splits) == list(sentences.SPLITS) and given.layers == (0, 6)
    for name, (drawn, states) in given.splits.items():
        assert len(drawn.texts) == len(states.states) == stored.STORED_SENTENCE_COUNTS[name]
        for text, words, spans, state in zip(drawn.texts, *states[1:], states.states):
            assert state.shape == (2, len(words), 128) and spans.shape == (len(words), 2)
            pieces = [text[a:b].lower() for a, b in spans[1:-1]]
            assert pieces == [word.removeprefix("##") for word in words[1:-1]]
        where = deciding_token(drawn, states)
        assert [words[i] for words, i in zip(states.words, where)] == drawn.word


@pytest.mark.slow  # all sentences; the words below are stored by the same code
@pytest.mark.skipif(bool(ABSENT), reason=ABSENT or "installed")
def test_stored_states_are_those_of_the_encoder():
    """Within half a step of the bytes, and float32 roundoff where a sum is near a tie."""
    held = stored._stored_arrays()
    for name in sentences.SPLITS:
        texts = stored._stored_split(name)[0].texts
        found = minilm.token_states(texts, stored.SENTENCE_LAYERS)
        rows = np.concatenate(
            [s[:, :, :: stored.COORDINATE_STRIDE] for s in found.states], axis=1
        )
        assert np.all(
            np.abs(stored._decode_states(name) - rows) <= 0.501 * held[f"{name}/step"] + 1e-5
        )


@pytest.mark.skipif(bool(ABSENT), reason=ABSENT or "installed")
def test_stored_words_are_those_of_the_encoder():
    held = stored._stored_arrays()
    words = minilm.token_states(stored.words_of_claims(), stored.WORD_LAYERS).states
    rows = np.stack([s[:, 1, :: stored.COORDINATE_STRIDE] for s in words], axis=1)
    assert np.all(
        np.abs(stored._decode_states("words") - rows) <= 0.501 * held["words/step"] + 1e-5
    )


def balanced(seed, n=30, d=12):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([-1.0, 1.0], n // 2))
    z = rng.standard_normal((n, d)) + np.outer(y, rng.standard_normal(d))
    return z - z.mean(axis=0), y


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ridge_probe_solves_the_primal_equations(seed):
    z, y = balanced(seed)
    primal = np.linalg.solve(z.T @ z + probing.RIDGE * np.eye(12), z.T @ y)
    assert np.allclose(probing.ridge_probe(z, y), primal, rtol=SOLVED, atol=0)


def test_paired_error_counts_words_not_sentences():
    """Ten words of ten sentences; the models differ on all sentences of one word:
    error sqrt(10^2 + 10^2)/100.
    """
    words = np.repeat([f"w{i}" for i in range(10)], 10)
    first = np.ones((2, 100), dtype=bool)
    second = np.tile(words != "w3", (2, 1))
    found = probing._compare_paired("x", first, second, words)
    assert (found.predicted, found.measured) == (1.0, 0.9)
    assert np.isclose(found.tolerance, 5 * np.sqrt(200) / 100)


def test_permutation_moments_against_enumeration():
    """Four pairs: all 16 swaps and all 24 ways to deal out the second words."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 4, 1, 6)) + 1
    found = structure._alignment(a, b, 10, rng)

    def alignment(x):
        cosines = [x[i] @ x[j] for i in range(4) for j in range(4) if i != j]
        return sum(cosines) / 3 / np.sum(x**2)

    x = (a - b)[:, 0]
    swaps = [alignment(x * np.array(signs)[:, None]) for signs in product([-1, 1], repeat=4)]
    deals = [a[:, 0] - b[list(order), 0] for order in permutations(range(4))]
    assert np.isclose(found.value[0], alignment(x)) and abs(np.mean(swaps)) < 1e-12
    assert np.isclose(found.swap_deviation[0], np.std(swaps))
    every_swap, every_deal = (np.sort(v) for v in (swaps, [alignment(d) for d in deals]))
    for drawn, every in ((found.swapped[0], every_swap), (found.repaired[0], every_deal)):
        # every draw is one of them
        assert np.abs(drawn[:, None] - every).min(axis=1).max() < 1e-12


def test_directions_tell_the_order():
    x = np.zeros((3, 1, 2))
    x[:, 0, 0] = (1, 1, -3)  # the third points against the others
    assert structure._by_pairs(x).tolist() == [[False, False, False]]
    x[:, 0, 0] = (1, 1, -0.5)
    assert structure._by_pairs(x).tolist() == [[True, True, False]]
