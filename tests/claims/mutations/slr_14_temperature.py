"""What makes the sentences of slr-14 false."""

import math

from helpers.mutation import moved, replaced

KEEP = (
    "_best_erf",
    "best_by_values",
    "critical_by_gradient",
    "_sampled_excess",
    "_bayes_on_vectors",
    "by_temperature",
    "by_dimension",
    "_log_regret",
)

MUTATIONS = (
    *replaced(
        "best",
        "the best inverse temperature is ten times larger",
        "_best_erf",
        lambda best: lambda *size: (10 * best(*size)[0], best(*size)[1]),
    ),
    *moved("best-exponent", "BEST_EXPONENTS", entry=0),
    *moved("best-exponent", "BEST_EXPONENTS", entry=1),
    *replaced(
        "saddle",
        "(k*, v*) stays a minimum",
        "local_geometry",
        lambda geometry: lambda task, erf, o: geometry(task, type(erf)(0.5), o),
    ),
    *replaced(
        "critical",
        "del with L in place of L - 1",
        "critical_law",
        lambda law: lambda task: law(type(task)(task.dim, task.length + 1)),
    ),
    *moved("limit", "LIMIT"),
    *moved("limit-long", "LIMIT"),
    *moved("polynomial", "RISK_EXPONENT"),
    *moved("rates", "RATES", entry=0),
    *moved("rates", "RATES", entry=1),
    *replaced(
        "exponential",
        "softmax and sigma are polynomially close too",
        "_log_regret",
        lambda regret: lambda kind, dim: -0.83 * math.log(dim),
    ),
)
