"""Why softmax wins: tokens that compete cost less than tokens that are weighed one by one."""

from __future__ import annotations

from attnscope_explorer.tours.stated_numbers import (
    best_inverse_temperature,
    best_risk,
    prediction_or_label,
    risk_at,
    token_weight,
    view_values,
)
from attnscope_explorer.tours.tour import Step, Tour

__all__ = ["TOUR"]

EQUAL_VARIANCES = "dim=8&gamma2=1"


def _bayes_risk(query: str) -> float:
    """The Bayes risk of a risk view against inverse temperature."""
    return risk_at(query, "Bayes", 0.0)()


TOUR = Tour(
    name="softmax",
    title="Why softmax wins",
    summary="Weights that compete for one share waste nothing, and are sometimes exactly the best there is.",
    steps=(
        Step(
            title="Two ways to weigh",
            sentence=(
                r"\informative{One token} of ten, shifted along a key direction k*, decides the label. "
                r"\erf{erf} bends each token's score s_l = k*.x_l on its own. \softmax{Softmax} lets the "
                r"tokens compete: each gets a share, and the shares add up to 1. lambda is the "
                r"inverse temperature, here the best for each."
            ),
            formula=(
                r"w_l = \erf{erf(lambda s_l)}; "
                r"w_l = \softmax{exp(lambda s_l)/sum_j exp(lambda s_j)}"
            ),
            view="posterior",
            query="",
            question="What weight does each of the two give the informative token?",
            answer=(
                "Softmax 0.999, erf 0.34. erf cannot give more: a larger lambda would raise the weights "
                "of the noise too."
            ),
            claims=("slr-01", "slr-16"),
            numbers={"0.999": token_weight("", "softmax"), "0.34": token_weight("", "erf")},
        ),
        Step(
            title="What that does to a prediction",
            sentence=(
                r"Another sequence. The prediction is the sum of the weights times what each token has "
                r"along the value direction v*; the label is what the informative token alone has."
            ),
            formula=r"T = sum_l w_l (v*.x_l); Y = v*.\informative{x_J}",
            view="posterior",
            query="seed=3",
            question="Compare the predictions in the table with the label in the note above it.",
            answer=(
                "The label is -0.49. Softmax predicts -0.47, erf -0.16: it passes on a third of the "
                "label, because that is all the weight it dares to give."
            ),
            claims=("slr-16",),
            numbers={
                "-0.49": prediction_or_label("seed=3", "label"),
                "-0.47": prediction_or_label("seed=3", "softmax"),
                "-0.16": prediction_or_label("seed=3", "erf"),
            },
        ),
        Step(
            title="Over all sequences",
            sentence=(
                r"The risk, the mean squared error over all sequences, against the inverse "
                r"temperature, for d = 50 numbers a token. The dashed line at the bottom is the "
                r"\bayes{Bayes risk}: no predictor whatsoever gets below it."
            ),
            formula=r"R = E(Y - T)^2",
            view="risk",
            query="dim=50",
            question="How low does each of erf and softmax get?",
            answer="erf gets to 0.230, softmax to 0.00023: a thousandth of it.",
            claims=("slr-14", "beyond-05"),
            numbers={
                "0.230": best_risk("dim=50", "erf"),
                "0.00023": best_risk("dim=50", "softmax"),
            },
        ),
        Step(
            title="The gap grows with d",
            sentence=(
                r"Against the dimension the difference is one of kind. \erf{erf} falls like a power of "
                r"d, a straight line here; \softmax{softmax} falls exponentially, because confusing two "
                r"tokens becomes exponentially rare."
            ),
            formula=r"\erf{log(d)/d} > \softmax{e^{-c d}}",
            view="risk",
            query="against=dim",
            question="The table has the best risks at d = 400. What are they for erf and softmax?",
            answer="0.067 for erf, 4.0e-30 for softmax.",
            claims=("slr-14", "beyond-03"),
            numbers={
                "400": lambda: view_values("risk", "against=dim")["task"].dim,
                "0.067": best_risk("against=dim", "erf"),
                "4.0e-30": best_risk("against=dim", "softmax"),
            },
        ),
        Step(
            title="And it is not bothered by a crowd",
            sentence=(
                r"Against the number of tokens L. Each further token adds its unwanted weight to erf's "
                r"prediction. For softmax it is only one more competitor, with hardly a chance."
            ),
            formula=r"\erf{(L - 1) E(w_l^2)}",
            view="risk",
            query="against=length",
            question="What do erf and softmax risk at 1,000 tokens?",
            answer="erf 0.455, close to knowing nothing, which is 0.5. Softmax 4.5e-28.",
            claims=("slr-17", "beyond-04"),
            numbers={
                "1,000": lambda: view_values("risk", "against=length")["xs"][-1],
                "0.455": risk_at("against=length", "erf", 1000),
                "0.5": risk_at("against=length", "null", 1000),
                "4.5e-28": risk_at("against=length", "softmax", 1000),
            },
        ),
        Step(
            title="Sometimes it is the best there is",
            sentence=(
                r"gamma^2 is the variance of the informative token around its mean. Where it is 1, as for "
                r"all the other tokens, \softmax{softmax} comes down to the dashed \bayes{Bayes line} and "
                r"touches it, at the inverse temperature that equals the shift."
            ),
            formula=r"lambda = sqrt(d/2)",
            view="risk",
            query="dim=50&gamma2=1",
            question="At which inverse temperature does it touch, and what is the risk there?",
            answer=(
                "At lambda = 5, the square root of half of 50, with risk 0.00255: the Bayes risk to all "
                "digits shown. No predictor can do better than this head."
            ),
            claims=("beyond-01", "slr-14"),
            numbers={
                "5": best_inverse_temperature("dim=50&gamma2=1", "softmax"),
                "0.00255": lambda: _bayes_risk("dim=50&gamma2=1"),
            },
        ),
        Step(
            title="Because its weights are probabilities",
            sentence=(
                r"The reason, in one sequence of few dimensions: at this inverse temperature the "
                r"weights of softmax are the exact probabilities p_l of each token to have decided."
            ),
            formula=r"\softmax{w_l} = \bayes{p_l}",
            view="posterior",
            query=EQUAL_VARIANCES,
            question="Compare the panels of the exact posterior and of softmax. Do you see a difference?",
            answer=(
                "There is none: the informative token has 0.110 in both. The next tour, attention as "
                "posterior inference, takes it from here."
            ),
            claims=("beyond-01", "exch-18"),
            numbers={"0.110": token_weight(EQUAL_VARIANCES, "softmax")},
        ),
        Step(
            title="And when it is not",
            sentence=(
                r"Where the informative token varies less than the others, gamma^2 = 0.2, it is also "
                r"shorter than they are. The Bayes predictor uses the length; softmax looks along one "
                r"direction and cannot."
            ),
            formula=r"\softmax{R_softmax} > \bayes{R_Bayes}",
            view="risk",
            query="dim=50&gamma2=0.2",
            question="How far is softmax from the Bayes line now?",
            answer=(
                "2.1e-5 against 3.9e-12: far, in factors, though both are tiny, and erf is at 0.131."
            ),
            claims=("slr-14", "beyond-09"),
            numbers={
                "2.1e-5": best_risk("dim=50&gamma2=0.2", "softmax"),
                "3.9e-12": lambda: _bayes_risk("dim=50&gamma2=0.2"),
                "0.131": best_risk("dim=50&gamma2=0.2", "erf"),
            },
        ),
    ),
)
