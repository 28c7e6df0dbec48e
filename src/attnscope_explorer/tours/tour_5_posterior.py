"""Attention as posterior inference: the best prediction weighs tokens by who may have decided."""

from __future__ import annotations

from attnscope_explorer.tours.stated_numbers import (
    best_inverse_temperature,
    prediction_or_label,
    risk_at,
    token_number,
    token_weight,
    view_values,
)
from attnscope_explorer.tours.tour import Step, Tour

__all__ = ["TOUR"]

FOUND_TOKEN = "dim=8&seed=4"
EQUAL_VARIANCES_SEED_2 = "dim=8&gamma2=1&seed=2"
SMALL_VARIANCE = "dim=8&gamma2=0.1"
LONG_SEQUENCE = "length=100"


def _softmax_inverse_temperature() -> float:
    """Of softmax where its weights are the posterior."""
    return float(
        view_values("posterior", EQUAL_VARIANCES_SEED_2)["inverse_temperatures"]["softmax"]
    )


TOUR = Tour(
    name="posterior",
    title="Attention as posterior inference",
    summary="Which token decided is a question with an exact answer, and attention is the answer's formula.",
    steps=(
        Step(
            title="Who decided?",
            sentence=(
                r"You see ten tokens of d = 8 numbers and know the key direction k*. One of them, "
                r"shifted along k*, decided the label, and all places are equally likely beforehand. "
                r"\bayes{p_l}, in the third panel, is the exact probability that it was token l."
            ),
            formula=r"sum_l \bayes{p_l} = 1",
            view="posterior",
            query="dim=8",
            question="Which token is most probable? Is it the orange one, which did decide?",
            answer=(
                "Token 1 is most probable, but token 5 decided; it had probability 0.32. Being wrong "
                "here is no mistake: nothing in the numbers says more."
            ),
            claims=("exch-18",),
            numbers={
                "1": token_number("dim=8", "posterior"),
                "5": token_number("dim=8"),
                "0.32": token_weight("dim=8", "posterior"),
            },
        ),
        Step(
            title="Sometimes one can be sure",
            sentence=(
                r"Another draw of the same task. A probability is a promise: over many sequences "
                r"tokens of this probability decide exactly as often as it says."
            ),
            formula=r"\bayes{p_J} ~ 1",
            view="posterior",
            query=FOUND_TOKEN,
            question="Which token is most probable now, how probable is it, and did it decide?",
            answer="Token 8, with probability 0.93, and it did.",
            claims=("exch-03", "exch-18"),
            numbers={
                "8": token_number(FOUND_TOKEN, "posterior"),
                "0.93": token_weight(FOUND_TOKEN, "posterior"),
            },
        ),
        Step(
            title="The best prediction is attention",
            sentence=(
                r"If token l decided, the label is what it has along the value direction v*. Not knowing "
                r"who decided, the best prediction is the mean over all who may have: a sum over tokens, "
                r"weighted by \bayes{p_l}. That is an attention head whose weights are probabilities."
            ),
            formula=r"T = sum_l \bayes{p_l} (v*.x_l)",
            view="posterior",
            query="seed=3",
            question="The last row of the table is this prediction. How close is it to the label?",
            answer="It predicts -0.490, and the label is -0.491: the right token has probability 0.998.",
            claims=("exch-18", "slr-04"),
            numbers={
                "-0.490": prediction_or_label("seed=3", "bayes"),
                "-0.491": prediction_or_label("seed=3", "label"),
                "0.998": token_weight("seed=3", "posterior"),
            },
        ),
        Step(
            title="Where the posterior is a softmax",
            sentence=(
                r"How probable a token is depends on how much likelier its numbers are with the shift "
                r"than without. For tokens that all have the same variance, gamma^2 = 1, the logarithm of "
                r"that ratio is the score times the shift sqrt(d/2). So the posterior is "
                r"\softmax{softmax attention}, to the last digit."
            ),
            formula=r"\bayes{p_l} = \softmax{exp(lambda k*.x_l)/sum_j exp(lambda k*.x_j)}; lambda = sqrt(d/2)",
            view="posterior",
            query=EQUAL_VARIANCES_SEED_2,
            question="Compare the panels of the posterior and of softmax, and their rows in the table.",
            answer=(
                "They are the same: weight 0.224 on the deciding token and prediction 0.396 in both, at "
                "inverse temperature 2."
            ),
            claims=("beyond-01", "exch-18"),
            numbers={
                "0.224": token_weight(EQUAL_VARIANCES_SEED_2, "softmax"),
                "0.396": prediction_or_label(EQUAL_VARIANCES_SEED_2, "bayes"),
                "2": _softmax_inverse_temperature,
            },
        ),
        Step(
            title="Where it knows more than the score",
            sentence=(
                r"Now the informative token varies little, gamma^2 = 0.1, and the others as before. It is "
                r"not only shifted, it is short. The posterior sees both; \softmax{softmax} sees the score "
                r"alone."
            ),
            formula=(
                r"log(\bayes{p_l}) = \softmax{s_l} - g |x_l|^2/2 + c; "
                r"\softmax{s_l} = sqrt(d/2) k*.x_l/gamma^2; g = 1/gamma^2 - 1"
            ),
            view="posterior",
            query=SMALL_VARIANCE,
            question="How sure is the posterior of token 5, and how much weight does softmax give it?",
            answer="The posterior is sure to 0.99999, softmax gives it 0.35.",
            claims=("beyond-09",),
            numbers={
                "5": token_number(SMALL_VARIANCE),
                "0.99999": token_weight(SMALL_VARIANCE, "posterior"),
                "0.35": token_weight(SMALL_VARIANCE, "softmax"),
            },
        ),
        Step(
            title="A crowd makes one less sure",
            sentence=(
                r"L = 100 tokens of d = 20 numbers. Still one decides, but there are ten times as many "
                r"others that might look like it. r_l says how much likelier token l is with the shift "
                r"than without."
            ),
            formula=r"\bayes{p_J} = r_J/sum_l r_l",
            view="posterior",
            query=LONG_SEQUENCE,
            question="How probable is the token that decided? Turn the tokens to 10 for comparison.",
            answer=(
                "0.990 among 100; among 10 it was 0.9999. Softmax, which sees the score alone, gives it "
                "0.63 among 100."
            ),
            claims=("exch-18", "slr-17"),
            turned="length=10",
            numbers={
                "0.990": token_weight(LONG_SEQUENCE, "posterior"),
                "0.9999": token_weight("", "posterior"),
                "0.63": token_weight(LONG_SEQUENCE, "softmax"),
            },
        ),
        Step(
            title="On average, at every dimension",
            sentence=(
                r"What is left of the risk is the probability that one cannot give to the right token. "
                r"With gamma^2 = 1 the curve of \softmax{softmax} at its best inverse temperature "
                r"is drawn in orange, the \bayes{Bayes risk} dashed."
            ),
            formula=r"\bayes{R} = 1 - E(p_J)",
            view="risk",
            query="against=dim&gamma2=1",
            question="Do you see two curves or one? What is the risk at d = 4?",
            answer=(
                "One: the dashes lie on the orange line at every d, 0.667 at d = 4. Attention has become "
                "inference; the best inverse temperature at d = 400, 14.1, is again the shift."
            ),
            claims=("beyond-01", "exch-18"),
            numbers={
                "4": lambda: view_values("risk", "against=dim&gamma2=1")["xs"][0],
                "400": lambda: view_values("risk", "against=dim&gamma2=1")["task"].dim,
                "0.667": risk_at("against=dim&gamma2=1", "Bayes", 4),
                "14.1": best_inverse_temperature("against=dim&gamma2=1", "softmax"),
            },
        ),
    ),
)
