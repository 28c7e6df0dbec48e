"""What makes the sentences of exch-11 false."""

from helpers.mutation import moved, replaced

KEEP = ("_gain",)


def _other_limit(cme):
    """Scaled CME attention that does not tend to softmax attention."""
    return lambda *args: 1.001 * cme(*args)


def _diagonal_twice(cme):
    """CME attention whose distance to softmax is that of twice the ridge."""

    def mutated(query, keys, values, kernel, bandwidth, ridge):
        return 2 * cme(query, keys, values, kernel, bandwidth, 2 * ridge)

    return mutated


def _normalised(gain):
    """Keys that are always divided by their norms."""
    return lambda h, contexts, normalise, rng: gain(h, contexts, True, rng)


MUTATIONS = (
    *replaced("limit", "scaled CME has another limit", "cme_attention", _other_limit),
    *moved("order", "ORDER"),
    *replaced("order", "scaled CME has another limit", "cme_attention", _other_limit),
    *replaced("gram", "the Gram matrix enters half", "cme_attention", _diagonal_twice),
    *replaced("long", "all keys have the same length", "_gain", _normalised),
    *replaced("normal", "the limit is f(q)", "_limit", lambda limit: lambda h: 1 + 0 * h),
    *replaced("normal", "the limit is f(q)/h^2", "_limit", lambda limit: lambda h: 1 / h**2),
    *replaced(
        "normalised",
        "softmax keeps rho_2",
        "softmax_filter",
        lambda kept: lambda d, h, m: kept(d, h, 2 * m),
    ),
)
