"""Write src/attnscope/corpora/stored_states.npz: the few states of all-MiniLM-L6-v2 that the text
claims fall back on where the encoder cannot be installed.

Needs the encoder (docs/text.md); the states are those of `token_states`:

    python tools/make_stored_states.py src/attnscope/corpora/stored_states.npz
"""

import sys

import numpy as np

from attnscope.corpora import stored_states as stored
from attnscope.corpora.minilm import token_states
from attnscope.corpora.sentences import SPLITS, draw_sentences

kept: dict[str, np.ndarray] = {}


def keep(name: str, states: list[np.ndarray]) -> None:
    """Every token below the other, (layers, tokens, coordinates), and how many each text has."""
    rows = np.concatenate(
        [state[:, :, :: stored.COORDINATE_STRIDE] for state in states], axis=1
    )
    kept[f"{name}/codes"], kept[f"{name}/step"] = stored.encode_states(rows)
    kept[f"{name}/lengths"] = np.array([state.shape[1] for state in states])


for split in SPLITS:
    sentences = draw_sentences(
        stored.STORED_SENTENCE_COUNTS[split], split, stored.STORED_SEED
    )
    found = token_states(sentences.texts, stored.SENTENCE_LAYERS)
    keep(split, found.states)
    kept[f"{split}/words"] = np.array([w for words in found.words for w in words])
    kept[f"{split}/spans"] = np.concatenate(found.spans).astype(np.int16)
words = stored.words_of_claims()
keep("words", [s[:, 1:2] for s in token_states(words, stored.WORD_LAYERS).states])
np.savez_compressed(sys.argv[1], **kept)
