"""What makes the sentences of slr-14 false."""

import math

from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = (
    "_best_erf",
    "best_by_values",
    "critical_by_gradient",
    "_by_dimension",
    "_log_regret",
)

MUTATIONS = (
    *replaced(
        "best",
        "the best inverse temperature is ten times larger",
        "_best_erf",
        lambda best: lambda *size: 10 * best(*size),
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

REBUILT = {
    "risk at the best temperature of erf": DROPPED,
    "erf by temperature, d = 50": DROPPED,
    "softmax by temperature, d = 50": DROPPED,
    "optimal sigma, d = 10, 20, 30": DROPPED,
    "Bayes, d = 5, 10": DROPPED,
    "gamma = 1: log risk of Bayes and of softmax at lam = s": DROPPED,
}
