"""What makes the sentences of slr-21 false."""

from helpers.mutation import moved, replaced

KEEP = ("_rates", "_largest_eigenvalues", "_floor_of_runs")


def _scaled_rates(hessian, trained):
    """The Hessian's eigenvalue and the trained ones times functions of the length."""

    def change(rates):
        def mutated(length, *args):
            predicted, measured, drift = rates(length, *args)
            return hessian(length) * predicted, trained(length) * measured, drift

        return mutated

    return change


def _scaled_floor(factor):
    """The trained floor times a function of noise and batch size."""

    def change(floor):
        def mutated(noise, batch, *args):
            m = floor(noise, batch, *args)
            return m._replace(ratio=factor(noise, batch) * m.ratio)

        return mutated

    return change


def _no_label_noise(gradient_noise):
    def mutated(task, lam):
        return gradient_noise(type(task)(task.dim, task.length), lam)

    return mutated


MUTATIONS = (
    *replaced(
        "slowest",
        "the Hessian's eigenvalue is 5 % higher",
        "_rates",
        _scaled_rates(lambda n: 1.05, lambda n: 1.0),
    ),
    *replaced(
        "length",
        "training slows as length^(-1/50)",
        "_rates",
        _scaled_rates(lambda n: 1.0, lambda n: n**-0.02),
    ),
    *moved("gamma", "SLOWEST_EIGENVALUES", entry=0.25),
    *moved("gamma", "SLOWEST_EIGENVALUES", entry=1.0),
    *replaced(
        "gamma",
        "the rate does not depend on gamma",
        "_rates",
        lambda rates: lambda length, gamma2, seed: rates(length, 0.5, seed),
    ),
    *moved("stable", "STABLE_STEPS", entry=2),
    *moved("stable", "STABLE_STEPS", entry=100),
    *replaced(
        "stable",
        "the largest stable step does not depend on length",
        "_largest_eigenvalues",
        lambda fast: lambda length: fast(2),
    ),
    *replaced(
        "largest",
        "the largest eigenvalue is 1 % higher",
        "_largest_eigenvalues",
        lambda fast: lambda length: (1.01 * fast(length)[0], fast(length)[1]),
    ),
    *moved("affine", "FLOOR", entry=0),
    *moved("affine", "FLOOR", entry=1),
    *replaced(
        "affine",
        "the floor grows with the noise, not with its variance",
        "_floor_of_runs",
        _scaled_floor(lambda x, batch: (0.00204 + 0.00583 * x) / (0.00204 + 0.00583 * x**2)),
    ),
    *moved("inverse", "BATCH_POWER"),
    *replaced(
        "inverse",
        "the floor falls as the batch size to the power -0.9",
        "_floor_of_runs",
        _scaled_floor(lambda x, batch: batch**0.1),
    ),
    *replaced(
        "gradient", "label noise leaves the gradient", "gradient_noise", _no_label_noise
    ),
    *replaced(
        "floor-noise",
        "the recursion has a tenth less noise",
        "_floor_of_runs",
        _scaled_floor(lambda x, batch: 1.1),
    ),
    *replaced(
        "floor-batch",
        "the recursion has a tenth less noise",
        "_floor_of_runs",
        _scaled_floor(lambda x, batch: 1.1),
    ),
)
