"""What makes the sentences of slr-04 false."""

from helpers.mutation import moved, replaced

from attnscope.tasks.planted.single_location import SingleLocation

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_sampled_excess",)


def _sharper(power):
    """The inverse temperature falls more slowly, by d^power."""
    return lambda of: lambda task, lam, *args: of(task, lam * task.dim**power, *args)


MUTATIONS = (
    *moved("rates", "EXPONENTS", entry=0),
    *moved("rates", "EXPONENTS", entry=1),
    *replaced("rates", "the risk falls more slowly", "_sampled_excess", _sharper(0.03)),
    *moved("regrets", "REGRETS", entry=0),
    *moved("regrets", "REGRETS", entry=1),
    *moved("plateau", "PLATEAU"),
    *replaced("plateau", "at a = 0.47 it stays there too", "_oracle_excess", _sharper(0.03)),
    *moved("null", "NULL_EXPONENT"),
    *replaced("null", "the gap does not close", "_oracle_excess", _sharper(0.1)),
    *moved("leak", "LEAK_RISK"),
    *replaced(
        "leak",
        "the background of L = sqrt(d) counts as that of L = 10",
        "_oracle_excess",
        lambda exact: lambda task, lam: exact(SingleLocation(task.dim, 10), lam),
    ),
)

REBUILT = {
    "regret at d = 1e+07, temperature d^(-1/4): limit law": DROPPED,
    "regret at d = 1e+07, temperature d^(-0.4): limit law": DROPPED,
    "regret at d = 1e+07, temperature d^(-1/2): limit law": DROPPED,
    "regret at d = 1e+07, temperature d^(-0.6): limit law": DROPPED,
    "regret at d = 1e+06, temperature d^(-1/4), L = sqrt(d): limit law": DROPPED,
    "closed form at d = 1e7, temperature d^(-1/4): limit law": DROPPED,
    "closed form at d = 1e7, temperature d^(-0.4): limit law": DROPPED,
    "closed form at d = 1e7, temperature d^(-1/2): limit law": DROPPED,
    "closed form at d = 1e7, temperature d^(-0.6): limit law": DROPPED,
}
