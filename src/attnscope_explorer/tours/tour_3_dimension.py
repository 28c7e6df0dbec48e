"""What dimension does: it makes one token stand out, and costs training nothing."""

from __future__ import annotations

from attnscope_explorer.tours.stated_numbers import (
    point_value,
    risk_at,
    token_number,
    token_weight,
    view_values,
)
from attnscope_explorer.tours.tour import Step, Tour

__all__ = ["TOUR"]

SMALL_DIM = "dim=8"
LARGE_DIM = "dim=400"
AGAINST_DIM = "against=dim"
AGAINST_LENGTH = "against=length&dim=20"
FIXED_INVERSE_TEMPERATURE = "against=dim&tuning=fixed"


def _signal_length(query: str) -> float:
    return float(view_values("posterior", query)["task"].signal)


def _largest_other_score() -> float:
    """The largest score of a token that did not decide, at d = 20."""
    names = view_values("posterior", "")
    return float(max(s for i, s in enumerate(names["scores"]) if i != names["location"]))


def _percent_above_shift() -> float:
    """Per cent of sequences in which a background token has a score above the shift, at d = 8."""
    from scipy.stats import norm

    names = view_values("posterior", SMALL_DIM)
    below = float(norm.cdf(names["task"].signal)) ** (names["task"].length - 1)
    return 100 * (1 - below)


TOUR = Tour(
    name="dimension",
    title="What dimension does",
    summary="In many dimensions the deciding token stands out, some heads profit more than others, and training costs the same.",
    steps=(
        Step(
            title="One token, shifted",
            sentence=(
                r"Each of these L = 10 tokens is a list of d = 20 numbers. \informative{The informative "
                r"one} is shifted along a key direction k*, by a length sqrt(d/2) that grows with d; the "
                r"noise of every token along k* stays about 1. The label is read off this token alone."
            ),
            formula=r"\informative{x_J} ~ N(sqrt(d/2) k*, gamma^2 I); \background{x_l} ~ N(0, I)",
            view="posterior",
            query="",
            question="The first panel shows each token's score k*.x_l. How far above the rest is the right one?",
            answer=(
                "Its score is 3.26, about the shift 3.16; the largest of the others is 0.98. One can "
                "see which token decided, though not by a wide margin."
            ),
            claims=("slr-16",),
            numbers={
                "3.26": token_weight("", "score"),
                "3.16": lambda: _signal_length(""),
                "0.98": _largest_other_score,
            },
        ),
        Step(
            title="Few dimensions hide it",
            sentence=(
                r"With d = 8 the shift is only 2, and in 19 of 100 sequences one of the others gets that "
                r"far by chance. The third panel is the best anybody can say: the exact probability of each token to "
                r"have decided, given all the numbers."
            ),
            formula=r"sqrt(d/2) = 2",
            view="posterior",
            query=SMALL_DIM,
            question="Which token is most probable? Which one did decide, and how probable was it?",
            answer=(
                "Token 1 is the most probable, but token 5 decided; it had a probability of 0.32. No "
                "head can do better than that on this sequence."
            ),
            claims=("slr-16", "exch-18"),
            numbers={
                "2": lambda: _signal_length(SMALL_DIM),
                "19": _percent_above_shift,
                "100": lambda: 100.0,
                "1": token_number(SMALL_DIM, "posterior"),
                "5": token_number(SMALL_DIM),
                "0.32": token_weight(SMALL_DIM, "posterior"),
            },
        ),
        Step(
            title="Many dimensions show it",
            sentence=(
                r"With d = 400 the shift is 14.1 and nothing in the noise comes near it. The right "
                r"token has probability 1, to all digits that a computer keeps."
            ),
            formula=r"p_J -> 1",
            view="posterior",
            query=LARGE_DIM,
            question="Which heads put their largest weight on the right token?",
            answer=(
                "All of them. What still differs is how much weight they waste on the other tokens, "
                "and that is what their risks are about."
            ),
            claims=("slr-16",),
            numbers={
                "14.1": lambda: _signal_length(LARGE_DIM),
                "1": token_weight(LARGE_DIM, "posterior"),
            },
        ),
        Step(
            title="Every head profits, not alike",
            sentence=(
                r"The risk of each kind of head, at its best inverse temperature, against d; both "
                r"axes are logarithmic. A straight line is a power of d; what bends down falls "
                r"faster than any power."
            ),
            formula=r"\erf{R} ~ log(d)/d",
            view="risk",
            query=AGAINST_DIM,
            question="Which curves are nearly straight, and which fall off the picture?",
            answer=(
                "erf and linear attention fall like powers: erf from 0.45 at d = 4 to 0.00010 at "
                "d = 1,000,000. Softmax and optimal sigma fall off, like the Bayes risk, the dashed "
                "line that nobody can beat."
            ),
            claims=("slr-04", "slr-14"),
            numbers={
                "0.45": risk_at(AGAINST_DIM, "erf", 4),
                "0.00010": risk_at(AGAINST_DIM, "erf", 1e6),
                "4": lambda: view_values("risk", AGAINST_DIM)["xs"][0],
                "1,000,000": lambda: view_values("risk", AGAINST_DIM)["xs"][-1],
            },
        ),
        Step(
            title="But only if the inverse temperature follows",
            sentence=(
                r"Now all heads keep the inverse temperature 0.1 at every d. \erf{erf} stops "
                r"improving: from some d on its weight on the right token is 1, and the others keep their noise."
            ),
            formula=r"\erf{R} -> (L - 1) E(erf(lambda s_l)^2)",
            view="risk",
            query=FIXED_INVERSE_TEMPERATURE,
            question="At which risk does erf come to rest? Then set Inverse temperatures to best for each.",
            answer=(
                "At 0.112, and no dimension helps any more. With the best inverse temperature for "
                "each d it goes down again: the best inverse temperature falls as d grows."
            ),
            claims=("slr-04", "slr-14"),
            turned=AGAINST_DIM,
            numbers={"0.112": risk_at(FIXED_INVERSE_TEMPERATURE, "erf", 1e6)},
        ),
        Step(
            title="What no dimension repairs",
            sentence=(
                r"A linear predictor reads every token alike. It cannot know which one decides, so it "
                r"hardly beats \null{predicting the mean}, in any dimension. Here the axis is the "
                r"number of tokens L."
            ),
            formula=r"R = gamma^2 - gamma^4/(L - 1 + gamma^2)",
            view="risk",
            query=AGAINST_LENGTH,
            question="What does the best linear predictor risk at 2 and at 1,000 tokens? And erf?",
            answer=(
                "0.333 and 0.500, which is the risk of predicting the mean. erf goes from 0.116 to "
                "0.498: it pays for every further token, but it starts far lower."
            ),
            claims=("slr-03", "slr-17"),
            numbers={
                "2": lambda: view_values("risk", AGAINST_LENGTH)["xs"][0],
                "1,000": lambda: view_values("risk", AGAINST_LENGTH)["xs"][-1],
                "0.333": risk_at(AGAINST_LENGTH, "best linear predictor", 2),
                "0.500": risk_at(AGAINST_LENGTH, "best linear predictor", 1000),
                "0.116": risk_at(AGAINST_LENGTH, "erf", 2),
                "0.498": risk_at(AGAINST_LENGTH, "erf", 1000),
            },
        ),
        Step(
            title="Training does not notice",
            sentence=(
                r"A head is trained in d dimensions, but its risk depends on five numbers only: how its "
                r"key k and value v agree with k*, v* and each other, such as \oracle{kappa = k.k*} and "
                r"\oracle{nu = v.v*}. These five are followed exactly, so the dimension d costs nothing."
            ),
            formula=r"R = R(kappa, eta, theta, nu, rho)",
            view="landscape",
            query="dim=100",
            question="Which star has the lower risk? Turn d to 400: and now?",
            answer=(
                "At d = 100 the swapped one, 0.137 against 0.165; at d = 400 the oracle, 0.113 against "
                "0.116. What the swapped one is, the tour of the swapped runs tells."
            ),
            claims=("slr-02", "slr-13"),
            turned="dim=400",
            numbers={
                "0.137": point_value("dim=100", "swapped", "risk"),
                "0.165": point_value("dim=100", "oracle", "risk"),
                "0.113": point_value("dim=400", "oracle", "risk"),
                "0.116": point_value("dim=400", "swapped", "risk"),
            },
        ),
    ),
)
