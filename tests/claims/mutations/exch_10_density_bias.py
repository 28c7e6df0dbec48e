"""What makes the sentences of exch-10 false."""

from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_quantile_keys",)


def _once(bias):
    """The density enters once, not twice: Laplacian f + <grad f, grad log p>."""
    return lambda h, laplacian, slope, density: bias(h, laplacian, slope, density / 2)


def _uniform(quantiles):
    """Keys that are uniform on the circle."""

    def mutated(length):
        return (quantiles(length) * 0 + 1).cumsum() * 6.283185307179586 / length

    return mutated


def _whole_bandwidth(bias):
    """h in place of h/2."""
    return lambda h, *args: bias(2 * h, *args)


MUTATIONS = (
    *(
        replaced(key, "the density enters once", "density_bias", _once)[0]
        for key in ("circle", "queries", "lean", "sphere-lean")
    ),
    *(
        replaced(key, "the factor is h", "density_bias", _whole_bandwidth)[0]
        for key in ("sphere-3", "sphere-8", "sphere-64")
    ),
    *moved("order", "ORDER"),
    *replaced("order", "the first order is h, not h/2", "density_bias", _whole_bandwidth),
    *moved("lean", "LEAN_RATIO"),
    *replaced("lean", "keys are equally dense everywhere", "_quantile_keys", _uniform),
)

REBUILT = {
    "sphere, d = 3: closed form and quadrature of the limit": DROPPED,
}
