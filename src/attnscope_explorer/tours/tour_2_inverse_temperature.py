"""What the inverse temperature does: one number between seeing nothing and believing everything."""

from __future__ import annotations

from attnscope_explorer.tours.stated_numbers import (
    best_inverse_temperature,
    best_risk,
    default_value,
    prediction_or_label,
    risk_at,
    run_count,
    token_number,
    token_weight,
)
from attnscope_explorer.tours.tour import Step, Tour

__all__ = ["TOUR"]

CHOSEN_INVERSE_TEMPERATURE = "tuning=fixed&dim=400"
LOW_INVERSE_TEMPERATURE = "tuning=fixed&inverse_temperature=0.01&dim=400"
FLATTENED_RUNS = "inverse_temperature=1&decay=0.0001&steps=120000"
HIGH_INVERSE_TEMPERATURE = "tuning=fixed&inverse_temperature=3&dim=400"


def _critical_inverse_temperature() -> float:
    import attnscope as at

    return at.critical_inverse_temperature(at.SingleLocation(dim=400, length=10))


def _inverse_temperature_ratio() -> float:
    """How many times softmax's best inverse temperature is that of erf."""
    return (
        best_inverse_temperature("dim=20", "softmax")()
        / best_inverse_temperature("dim=20", "erf")()
    )


TOUR = Tour(
    name="temperature",
    title="What the inverse temperature does",
    summary="Too low and the head whispers, too high and it listens to noise; above a limit it loses its way.",
    steps=(
        Step(
            title="From scores to weights",
            sentence=(
                r"Of these L = 10 tokens one, \informative{the informative one}, is shifted along a key "
                r"direction k*, and it alone decides the label. A head that knows k* gives every token "
                r"a score s_l, how much of k* is in it, and bends it into a weight w_l between -1 and 1. "
                r"The inverse temperature lambda multiplies the score first."
            ),
            formula=r"s_l = k*.x_l; w_l = \erf{erf(lambda s_l)}",
            view="posterior",
            query=CHOSEN_INVERSE_TEMPERATURE,
            question="Find the panel called erf. What weight has the informative token, and which is it?",
            answer=(
                "Token 5 has the weight 0.96, close to 1, as it should. The others have small weights, "
                "but not 0."
            ),
            claims=("slr-01", "slr-16"),
            numbers={
                "5": token_number(CHOSEN_INVERSE_TEMPERATURE),
                "0.96": token_weight(CHOSEN_INVERSE_TEMPERATURE, "erf"),
            },
        ),
        Step(
            title="Too low: the head whispers",
            sentence=(
                r"With a small lambda no weight gets far from 0. The head still looks at the right "
                r"token most, but it passes on only a part of what it reads there."
            ),
            formula=r"T = sum_l \erf{w_l} (v*.x_l)",
            view="posterior",
            query=LOW_INVERSE_TEMPERATURE,
            question="In the table: which weight has the informative token, and what does erf predict?",
            answer="The weight is 0.16, so erf predicts 0.13, where the label is 0.71.",
            claims=("slr-16",),
            numbers={
                "0.16": token_weight(LOW_INVERSE_TEMPERATURE, "erf"),
                "0.13": prediction_or_label(LOW_INVERSE_TEMPERATURE, "erf"),
                "0.71": prediction_or_label(LOW_INVERSE_TEMPERATURE, "label"),
            },
        ),
        Step(
            title="Too high: the head believes everything",
            sentence=(
                r"With a large lambda every score, however small, is bent to the full weight 1 or -1. "
                r"The informative token has its weight 1, and so has the noise of all the others."
            ),
            formula=r"\erf{erf(lambda s_l)} -> +-1",
            view="posterior",
            query=HIGH_INVERSE_TEMPERATURE,
            question="What does erf predict now? And what does softmax, which divides by the sum?",
            answer=(
                "erf predicts 2.73 instead of 0.71: it has added the noise of the others. Softmax "
                "predicts 0.71, because its weights are shares of 1 and the largest takes it all."
            ),
            claims=("slr-14",),
            numbers={
                "2.73": prediction_or_label(HIGH_INVERSE_TEMPERATURE, "erf"),
                "0.71": prediction_or_label(HIGH_INVERSE_TEMPERATURE, "softmax"),
            },
        ),
        Step(
            title="A valley between the two",
            sentence=(
                r"Averaged over all sequences the \erf{risk of erf} has two parts: what the "
                r"informative token lacks of weight 1, and the weight of the L - 1 others. gamma^2 is "
                r"the variance of the label. One part falls with lambda, the other rises."
            ),
            formula=r"\erf{R} = gamma^2 E(1 - w_J)^2 + (L - 1) E(w_l^2)",
            view="risk",
            query="dim=20",
            question="Where is the blue curve lowest, and how low is it there?",
            answer=(
                "At lambda = 0.096, with a risk of 0.330. Far to the left it nears 0.5, the risk of a head "
                "that says nothing; far to the right it is 8.9."
            ),
            claims=("slr-02", "slr-14"),
            numbers={
                "0.096": best_inverse_temperature("dim=20", "erf"),
                "0.330": best_risk("dim=20", "erf"),
                "0.5": risk_at("dim=20", "null", 0.001),
                "8.9": risk_at("dim=20", "erf", 100),
            },
        ),
        Step(
            title="Softmax likes it sharp",
            sentence=(
                r"\softmax{Softmax} weights are shares: they add up to 1. When lambda grows the "
                r"largest score takes all, and the others go away instead of shouting."
            ),
            formula=r"w_l = \softmax{exp(lambda s_l)/sum_j exp(lambda s_j)}",
            view="risk",
            query="inverse_temperature=10&dim=20",
            question="Where is the orange curve lowest? How many times the best inverse temperature of erf is that?",
            answer=(
                "At 3.8, which is 40 times as much. A good inverse temperature is a matter of the "
                "head, not of the task alone: at 10 softmax risks 0.047 and erf 8.4."
            ),
            claims=("slr-14",),
            numbers={
                "3.8": best_inverse_temperature("dim=20", "softmax"),
                "40": _inverse_temperature_ratio,
                "0.047": risk_at("inverse_temperature=10&dim=20", "softmax"),
                "8.4": risk_at("inverse_temperature=10&dim=20", "erf"),
            },
        ),
        Step(
            title="More noise wants it lower",
            sentence=(
                r"Nothing changes but the number of tokens: L = 100 instead of 10. There is still one "
                r"that decides, but ten times as many others, each with its unwanted weight."
            ),
            formula=r"\erf{(L - 1) E(w_l^2)}",
            view="risk",
            query="dim=20&length=100",
            question="Where is the blue curve lowest now, and how low? Turn the tokens back to 10 to compare.",
            answer=(
                "At lambda = 0.013 instead of 0.096: the head has to whisper, and says next to nothing. Its "
                "risk is 0.476 instead of 0.330; that of softmax 0.197 instead of 0.042."
            ),
            claims=("slr-17",),
            turned="dim=20&length=10",
            numbers={
                "0.013": best_inverse_temperature("dim=20&length=100", "erf"),
                "0.476": best_risk("dim=20&length=100", "erf"),
                "0.096": best_inverse_temperature("dim=20", "erf"),
                "0.330": best_risk("dim=20", "erf"),
                "0.197": best_risk("dim=20&length=100", "softmax"),
                "0.042": best_risk("dim=20", "softmax"),
            },
        ),
        Step(
            title="An inverse temperature at which the way is lost",
            sentence=(
                r"Here a head is trained. \oracle{kappa = k.k*} and \oracle{nu = v.v*} say how well its "
                r"two directions agree with the right ones; the star at 1, 1 is the oracle. Up to a "
                r"critical inverse temperature lambda_c it is a minimum. Above, a small step aside "
                r"lowers the risk, so no run stays there."
            ),
            formula=r"lambda_c -> sqrt(3)/2",
            view="landscape",
            query="inverse_temperature=0.8",
            question="What does the legend call the oracle at inverse temperature 0.8? And at 1?",
            answer=(
                "A minimum at 0.8, a saddle at 1. The change is at 0.892, for d = 400; as d grows it comes "
                "down to 0.866."
            ),
            claims=("slr-08", "slr-14"),
            turned="inverse_temperature=1",
            numbers={"0.892": _critical_inverse_temperature, "0.866": lambda: 3**0.5 / 2},
        ),
        Step(
            title="Sharp first, then flatter",
            sentence=(
                r"Training may change the inverse temperature on its way. Here it begins at 1 and "
                r"falls with every step t, slower and slower. The starts are random, and at a "
                r"fixed inverse temperature of 0.1 about half of such runs end \swapped{with swapped roles}, as another tour tells."
            ),
            formula=r"lambda_t = lambda/(1 + r t)",
            view="training",
            query=FLATTENED_RUNS,
            question="How many of the 30 runs reach the oracle, and how many end swapped?",
            answer="28 reach the oracle and 2 end swapped. Flattening helps nearly always, but not always.",
            claims=("slr-10",),
            numbers={
                "0.1": lambda: default_value("landscape", "inverse_temperature"),
                "28": run_count(FLATTENED_RUNS, "oracle"),
                "2": run_count(FLATTENED_RUNS, "swapped"),
            },
        ),
    ),
)
