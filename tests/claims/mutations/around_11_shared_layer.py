"""What makes the sentences of around-11 false."""

from types import SimpleNamespace

from helpers.mutation import moved, replaced

KEEP = ("_sampled_excess", "_complex_part", "_figure")


def _risk(shared_rule, own_rule):
    """The closed forms replaced."""

    def risk(N, n, noise, shared=True):
        return SimpleNamespace(excess=noise**2 * (shared_rule if shared else own_rule)(N, n))

    return lambda original: risk


def _only_chi_square(N, n):
    """Every frequency counted as real."""
    return 1 / (n - 2)


def _no_degrees(N, n):
    """N/n in place of N/(n - N - 1)."""
    return N / n


def _grows(drawn):
    """Errors of a shared layer that grow as N^0.2."""

    def draw(N, n, repeats, shared, rng):
        mean, error = drawn(N, n, repeats, shared, rng)
        factor = (N / 32) ** 0.2 if shared else 1.0
        return mean * factor, error * factor

    return draw


WRONG = _risk(_only_chi_square, _no_degrees)
MUTATIONS = (
    *replaced("shared-32-20", "every frequency counted as real", "shared_layer_risk", WRONG),
    *replaced("shared-32-5", "every frequency counted as real", "shared_layer_risk", WRONG),
    *moved("shared", "SHARED_ERROR"),
    *replaced("flat", "the error grows as N^0.2", "_sampled_excess", _grows),
    *replaced(
        "three",
        "three sequences leave twice the error",
        "_complex_part",
        lambda part: lambda *args: (2 * part(*args)[0], part(*args)[1]),
    ),
    *replaced("own-8-20", "N/n in place of N/(n-N-1)", "shared_layer_risk", WRONG),
    *replaced("own-32-80", "N/n in place of N/(n-N-1)", "shared_layer_risk", WRONG),
    *moved("own", "OWN_ERROR"),
)
