"""Small tasks, tokens and bags for one valid call of every public function."""

from __future__ import annotations

import inspect

import numpy as np

import attnscope as at

RNG = np.random.default_rng(20)
KEY, VALUE = np.eye(6)[:2]
TOKENS = RNG.standard_normal((3, 4, 6))
MASK = np.array([[True] * 4, [True, True, False, False], [True, True, True, False]])
INSIDE = at.Overlaps(0.5, 0.1, 0.2, 0.6, -0.1)
LOCATION = np.array([0, 3, 1])
QUERY, KEYS, VALUES = (
    RNG.standard_normal((2, 3)),
    *np.split(RNG.standard_normal((2, 5, 4)), [3], axis=2),
)
WORDS = np.array([[0, 1, 2], [2, 2, 0]])
BAGS = RNG.standard_normal((12, 3, 2))
LABELS = np.where(np.arange(12) % 2, 1.5, -0.5) + BAGS[:, 0, 0]
CLASSES = np.arange(12) % 2
ONES = np.ones(12)


def single(**more):
    return at.SingleLocation(6, 4, **({"signal": 2.0, "noise": 0.3} | more))


class ShiftedToken(at.Planted):
    """The first token is shifted along the key; its value is the label."""

    teachers = ("key", "value")
    shift: float = 1.0

    def latents(self):
        return np.array([0]), np.array([1.0])

    def means(self, latent):
        out = np.zeros((len(latent), self.length, 2))
        out[:, 0, 0] = self.shift
        return out

    def label(self, fields, latent, rng):
        return fields[:, 0, 1]


TASK = single()
SPIKED = at.SingleLocation.spiked(dim=6, length=3, strength=5.0, noise=0.3)
SPARSE = at.SparseTokenClassification(6, 4, 3.0)
LINEAR = at.LinearMap(3, 1, 1.0, 0.5)
SPHERE = at.SphereRegression()
DRIFT = at.DriftingMap(3, 1)
TOPICS = at.Topics([0.5, 0.5], [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
MIXTURE = at.TopicMixture(2, 2, 0.5)
RETRIEVAL = at.SparseRetrieval(3, 1.0)
RANDOM = at.RandomLength(single(), {2: 0.5, 4: 0.5})
GRID = at.GridLocation(2, 2, 6, signal=2.0)
TWO = at.MultiDirection(6, 4, signal=2.0)
WIDE = at.MultiDirection(8, 4, signal=2.0)
SEVERAL = at.MultiLocation(6, 4, signal=2.0)
LARGEST = at.MaxLocation(6, 4)
SPIKES = at.SpikeMixture(6, 4)
POSITIONAL = at.PositionalSemantic(6)
CORRELATED = at.CorrelatedBackground(single(), covariance=np.diag([4.0, 1, 1, 1, 1, 0.25]))
OWN = ShiftedToken(6, 4)
LOCATION_TASK = at.GaussianLocation(6)
ORDER = at.OrderTask()
PLANTED = {
    "SingleLocation": TASK,
    "MultiLocation": SEVERAL,
    "MaxLocation": LARGEST,
    "RandomLength": RANDOM,
    "GridLocation": GRID,
    "CorrelatedBackground": CORRELATED,
    "MultiDirection": TWO,
    "SpikeMixture": SPIKES,
    "SparseTokenClassification": SPARSE,
    "PositionalSemantic": POSITIONAL,
    "Planted": OWN,
}
BATCH = single(noise=0.3).sample(40, seed=0)
BLOCK, SIMPLE = at.TransformerBlock(6), at.SimplifiedAttention(6)
NET, GRU = at.DenseNet(6, 4, 5), at.GatedRecurrent(6, 3)
MODELS = {
    "TransformerBlock": BLOCK,
    "SimplifiedAttention": SIMPLE,
    "DenseNet": NET,
    "GatedRecurrent": GRU,
}
CONTEXTS = at.task_contexts(LINEAR, 6, length=5)
PARAMETERS = at.AttentionParameters(0.3 * np.eye(3), 0.2, np.eye(1))
START = np.array(at.Overlaps(0.5, 0.0, 0.0, 0.5, 0.0))[:, None]
LAYER = at.FullAttention(np.eye(6), np.eye(6), np.eye(6), np.ones((1, 6)), 0.5)


CALLS = {}
VECTORS = {"key": KEY, "value": VALUE}
SIZES = {"dim": 6, "length": 4}
SINGLE = {"gamma": 0.7, "noise": 0.3, "signal": 2.0, **VECTORS, "seed": 0}


def add(name, function, /, **arguments):
    CALLS[name] = (function, arguments)


def later(make, kind, method):
    """The method of an object of this kind, which is made at the first call."""

    def run(**given):
        return getattr(make(), method)(**given)

    run.__signature__ = inspect.signature(getattr(kind, method))
    return run
