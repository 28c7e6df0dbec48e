"""What makes the sentences of slr-01 false."""

from helpers.mutation import moved, replaced

from attnscope.predictors.attention import Softmax


def _exchanged(layer):
    """A layer reduced with query and key in exchanged roles."""

    class Exchanged(layer):
        def reduced(self, cls):
            softmax, _, v = super().reduced(cls)
            return softmax, self.Q @ self.K.T @ cls, v

    return Exchanged


def _unscaled(layer):
    """A layer whose rows ignore the inverse temperature."""

    class Unscaled(layer):
        def rows(self, tokens):
            return layer(self.Q, self.K, self.V, self.O, 1.0).rows(tokens)

    return Unscaled


MUTATIONS = (
    *replaced("one-output", "k = Q K^T a", "FullAttention", _exchanged),
    *replaced("rows", "the rows do not depend on lam", "FullAttention", _unscaled),
    *replaced(
        "componentwise",
        "erf(lam X_l.k/2) in place of erf(lam X_l.k)",
        "_componentwise_by_loops",
        lambda loops: lambda X, k, v, lam: loops(X, k, v, lam / 2),
    ),
    *moved("softmax-risk", "SOFTMAX_RISK"),
    *moved("erf-risk", "ERF_RISK"),
    *replaced(
        "erf-risk",
        "the last step is an identity too",
        "predict",
        lambda predict: (
            lambda predictor, *args: predict(Softmax(predictor.inverse_temperature), *args)
        ),
    ),
)
