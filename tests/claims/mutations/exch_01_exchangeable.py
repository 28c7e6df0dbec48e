"""What makes the sentences of exch-01 false."""

import numpy as np
from helpers.mutation import moved, replaced


def _first_value(*tokens):
    """A number that the first token of each sequence gives."""
    last = np.asarray(tokens[-1], dtype=float)
    return last[..., 0, 0] if last.ndim > 1 and last.shape[-1] == 1 else last[..., 0]


def _law(extra):
    """A task whose log-law has a term more, extra(tokens)."""

    def change(task):
        class Other(task):
            def log_probability(self, *tokens):
                return super().log_probability(*tokens) + extra(*tokens)

        return Other

    return change


_ordered = _law(lambda *tokens: 1e-6 * _first_value(*tokens))


def _scaled(task):
    """Later tokens are larger."""

    class Other(task):
        def sample(self, n, length, seed=0):
            batch = super().sample(n, length, seed)
            size = 1 + 0.05 * np.arange(length)
            return batch._replace(tokens=batch.tokens * size[:, None])

    return Other


def _first_is_last(task):
    """The last token repeats the first one in a tenth of the sequences."""

    class Other(task):
        def sample(self, n, length, seed=0):
            batch = super().sample(n, length, seed)
            tokens = batch.tokens.copy()
            tokens[::10, -1] = tokens[::10, 0]
            return batch._replace(tokens=tokens)

    return Other


MUTATIONS = (
    *(
        replaced(f"permuted-{key}", "the law depends on the first token", task, _ordered)[0]
        for key, task in (
            ("location", "GaussianLocation"),
            ("linear", "LinearMap"),
            ("sphere", "SphereRegression"),
            ("topics", "Topics"),
        )
    ),
    *(
        replaced(f"marginal-{key}", "the law of a token depends on L", task, change)[0]
        for key, task, change in (
            ("location", "GaussianLocation", _law(lambda x: 1e-3 * np.shape(x)[-2])),
            ("linear", "LinearMap", _law(lambda k, v: 1e-3 * np.shape(v)[-2])),
            ("sphere", "SphereRegression", _law(lambda k, v: 1e-3 * np.shape(v)[-2])),
            ("topics", "Topics", _law(lambda x: 1e-3 * np.shape(x)[-1])),
        )
    ),
    *moved("pairs-location", "PRODUCTS", entry="Gaussian location"),
    *replaced("pairs-location", "later tokens are larger", "GaussianLocation", _scaled),
    *moved("pairs-linear", "PRODUCTS", entry="linear map"),
    *moved("pairs-sphere", "PRODUCTS", entry="sphere regression"),
    *replaced(
        "pairs-topics", "the last token often repeats the first", "Topics", _first_is_last
    ),
)
