"""What makes the sentences of around-02 false."""

from helpers.mutation import moved, replaced

from attnscope.predictors.operators.context_attention import softmax_attention
from attnscope.theory.exchangeable.spectral import softmax_filter

KEEP = ("_errors", "_filter_on_keys", "_figure")


def softmax_instead(attend):
    """Attention that fits a constant."""
    return softmax_attention


MUTATIONS = (
    *replaced(
        "linear-map", "a constant is fitted", "local_linear_attention", softmax_instead
    ),
    *replaced(
        "second",
        "l^2/8 without the dimension",
        "_loss_per_square",
        lambda formula: lambda rank, gap: rank**2 / 8,
    ),
    *replaced(
        "second",
        "the loss is of first order in h, that of softmax",
        "local_linear_filter",
        lambda keep: softmax_filter,
    ),
    *replaced(
        "first",
        "softmax loses half as much",
        "softmax_filter",
        lambda keep: lambda *args: (1 + keep(*args)) / 2,
    ),
    *replaced(
        "quadrature",
        "the filter is that of softmax",
        "local_linear_filter",
        lambda keep: softmax_filter,
    ),
    *replaced("circle", "a constant is fitted", "local_linear_attention", softmax_instead),
    *replaced(
        "sampled",
        "the filter is that of softmax",
        "local_linear_filter",
        lambda keep: softmax_filter,
    ),
    *replaced(
        "noise",
        "V is the variance of softmax weights alone",
        "_variance",
        lambda variance: lambda d, h: 0.8 * variance(d, h),
    ),
    *moved("exponent", "EXPONENT"),
    *replaced(
        "exponent",
        "local linear attention has the error of softmax",
        "_errors",
        lambda errors: lambda *args: errors(*args)[[1, 1]],
    ),
    *moved("plateau", "PLATEAU"),
    *replaced(
        "softmax",
        "softmax has the error of local linear attention",
        "_errors",
        lambda errors: lambda *args: errors(*args)[[0, 0]],
    ),
)
