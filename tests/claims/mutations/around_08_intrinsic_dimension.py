"""What makes the sentences of around-08 false."""

from types import SimpleNamespace

from helpers.mutation import moved, replaced

KEEP = ("_variance_curve", "_tokens", "intrinsic_dimension", "_slope", "_circle", "_figure")


def _ambient(exponent):
    """The exponent of the space R^(m + 1) around the sphere."""
    return lambda m, beta: exponent(m + 1, beta)


def _not_in_smoothness(exponent):
    """The exponent of smoothness 1, whatever the smoothness is."""
    return lambda m, beta: exponent(m, 1.0)


def _harder_space(sampled):
    """Errors that grow with the ambient dimension."""

    def draw(m, D, *rest):
        mean, error = sampled(m, D, *rest)
        return mean * (1.1 if D == 40 else 1.0), error

    return draw


def _steeper(sampled):
    """Errors that fall faster by L^-0.1."""

    def draw(*args):
        mean, error = sampled(*args)
        factor = [1.0, 4**-0.1, 16**-0.1]
        return mean * factor, error * factor

    return draw


def _more(share):
    return lambda curve: lambda *args: (1 + share) * curve(*args)


def _dimensions(found):
    """Estimates that see the ambient dimension."""

    def dimension(tokens):
        e = found(tokens)
        return SimpleNamespace(value=float(tokens.shape[1]), error=e.error)

    return dimension


MUTATIONS = (
    *replaced(
        "equation",
        "bias without the noise",
        "_bias_and_variance",
        lambda total: lambda s: [x - 0.25 for x in total(s)],
    ),
    *(
        mutation
        for key in ("curve-1-2", "curve-2-3", "curve-2-40", "curve-4-40")
        for mutation in replaced(key, "an excess 5 % larger", "_curve", _more(0.05))
    ),
    *replaced("ambient", "R^40 costs 10 % more", "_variance_curve", _harder_space),
    *replaced("exponent", "the ambient dimension sets the exponent", "_exponent", _ambient),
    *replaced("data", "the ambient dimension sets the exponent", "_exponent", _ambient),
    *replaced("data", "errors fall faster", "_variance_curve", _steeper),
    *replaced("circle", "smoothness has no effect", "_exponent", _not_in_smoothness),
    *moved("late", "EARLY_SLOPE"),
    *replaced("late", "errors fall faster", "_variance_curve", _steeper),
    *replaced(
        "dimension", "the ambient dimension is read off", "intrinsic_dimension", _dimensions
    ),
    *replaced(
        "read", "the ambient dimension is read off", "intrinsic_dimension", _dimensions
    ),
)
