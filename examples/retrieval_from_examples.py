"""
Finding one coordinate of many from a few examples
==================================================

Labels are one coordinate of the inputs, with noise; which one is hidden. Attention over coordinates
that scores by cosines (normalised keys) needs as many examples as Shannon's capacity asks for;
plain dot products need more. All curves are exact, the last ones for 3e69 coordinates.
"""

import math

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Line, Panel, Points

small = at.SparseRetrieval(features=64, noise=0.5)
lengths = np.arange(1, 31)
chance = {
    scores: [at.retrieval_probability(small, int(n), scores).value for n in lengths]
    for scores in ("cosine", "dot")
}

few = np.array([4, 8, 16])
seen = []
for n in few:
    batch = small.sample(2000, length=int(n), seed=int(n))
    cosine = np.sum(batch.values * batch.keys, axis=1) / np.linalg.norm(batch.keys, axis=1)
    seen.append(np.mean(np.argmax(cosine, axis=1) == np.argmax(batch.latent[:, 0], axis=1)))
print("drawn, cosine:", dict(zip(few.tolist(), seen)))

noises = np.geomspace(0.1, 2, 12)
huge = [at.SparseRetrieval(round(math.exp(160)), float(s)) for s in noises]
needed = {s: [at.examples_needed(task, scores=s) for task in huge] for s in ("cosine", "dot")}
shannon = [math.log(task.features) / task.capacity for task in huge]

panels = (
    Panel(
        "64 coordinates, noise 1/2",
        "examples",
        "probability of finding the coordinate",
        (
            Line(lengths, chance["cosine"], "cosine", 0),
            Line(lengths, chance["dot"], "dot product", 1),
            Points(few, seen, "cosine, drawn", 0),
        ),
    ),
    Panel(
        "3e69 coordinates",
        "noise",
        "examples for probability 1/2",
        (
            Points(noises, needed["cosine"], "cosine", 0),
            Line(noises, needed["dot"], "dot product", 1),
            Line(noises, shannon, "log(m)/capacity", 2, dashed=True),
        ),
        log_x=True,
        log_y=True,
    ),
)
Figure("Retrieval from examples", panels, columns=2).save("retrieval_from_examples.png")
