"""What makes the sentences of samples-05 false."""

from helpers.mutation import moved, replaced

BAYES = {1.0: 0.395, 2.0: 0.184, 4.0: 0.123}  # excess risk by alpha
KEEP = ("_fits", "_theory", "_figure")


def one_kind(fits):
    """Linear attention fits as softmax attention does."""
    return lambda dim, kind, *args: fits(dim, "softmax", *args)


def exchanged(theory):
    """The equations of the other kind."""
    return lambda dim: (
        lambda it: it._replace(risks=it.risks[::-1], residuals=it.residuals[::-1])
    )(theory(dim))


MUTATIONS = (
    *replaced("gap", "linear attention is as good", "_fits", one_kind),
    *replaced(
        "bayes",
        "the fits reach the Bayes-optimal risk",
        "_fits",
        lambda fits: (
            lambda dim, kind, alpha, *args: [
                (BAYES[alpha], residual) for _, residual in fits(dim, kind, alpha, *args)
            ]
        ),
    ),
    *moved("stated", "SOFTMAX_RISKS", entry=1),
    *moved("stated", "LINEAR_RISKS", entry=1, by=0.05),
    *moved("stated", "BAYES_RISKS", entry=1, by=0.02),
    *replaced("softmax-risk", "the equations of the other kind", "_theory", exchanged),
    *replaced("linear-risk", "the equations of the other kind", "_theory", exchanged),
    *replaced("softmax-residual", "the equations of the other kind", "_theory", exchanged),
    *replaced("linear-residual", "the equations of the other kind", "_theory", exchanged),
)
