"""Why half the runs swap: from random starts some runs exchange the roles of key and value."""

from __future__ import annotations

from attnscope_explorer.tours.stated_numbers import (
    path_count,
    point_value,
    swapped_and_oracle_cross,
    view_values,
)
from attnscope_explorer.tours.tour import Step, Tour

__all__ = ["TOUR"]

SWAPPED_PLANE = "x=eta&y=theta"
BOTH_MINIMA_PLANE = "x=kappa&y=eta"


def _predicted_count() -> float:
    """Of the 30 paths, those whose end the first-order rule names from their start."""
    from attnscope.theory.optima.landscape import basin_prediction
    from attnscope.theory.overlaps import Overlaps

    names = view_values("landscape", BOTH_MINIMA_PLANE)
    run = names["run"]
    start = Overlaps(*run.log[:, :, 0])
    told = basin_prediction(names["task"], float(run.inverse_temperature[0]), start)
    return float((told == run.outcome).sum())


TOUR = Tour(
    name="swapped-runs",
    title="Why half the runs swap",
    summary="One token decides, a head must find it, and half the heads learn it the other way round.",
    steps=(
        Step(
            title="The task: one token decides",
            sentence=(
                r"A sequence is a row of L = 10 tokens, each a list of d = 400 numbers. One of them, "
                r"\informative{the informative token}, is shifted along a hidden direction, the key "
                r"\key{k*}. The label Y is what this one token has along a second hidden direction, "
                r"the value \value{v*}. All the other tokens are noise."
            ),
            formula=r"Y = \value{v*}.\informative{x_J}",
            view="posterior",
            query="dim=400",
            question=r"The first panel shows how much of \key{k*} is in each token. Which one decided?",
            answer="Token 5: its score stands far above the others, and its value is the label.",
            claims=("slr-01",),
            numbers={"5": lambda: view_values("posterior", "dim=400")["location"] + 1},
        ),
        Step(
            title="A head has two arrows",
            sentence=(
                r"An attention head has a key k and a value v of its own. The key gives each token "
                r"a weight, the value says what to read, and the prediction T is the weighted sum. "
                r"Two numbers say how well the arrows point: \key{kappa = k.k*} and "
                r"\value{nu = v.v*}; 1 is right, 0 is lost."
            ),
            formula=r"T = sum_l erf(lambda \key{k}.x_l) (\value{v}.x_l)",
            view="landscape",
            query="start=manifold",
            question="Dark is a low risk. In which corners do the 30 training paths end?",
            answer=(
                "In the upper right, where both arrows are right, and in the lower left, where both "
                "are reversed, which predicts the same. All 30 arrive, because they began with a key "
                "that knew nothing of v* and a value that knew nothing of k*."
            ),
            claims=("slr-01", "slr-05", "slr-06", "slr-07"),
            numbers={"30": path_count("start=manifold", "oracle")},
        ),
        Step(
            title="Now begin anywhere",
            sentence=(
                r"The same task, the same steps, but key and value begin in random directions. Blue "
                r"paths still reach \oracle{kappa = nu = 1}, which we call the oracle. The "
                r"\swapped{orange ones} do not."
            ),
            formula=r"\oracle{kappa = nu = 1}; \swapped{kappa = nu = 0}",
            view="landscape",
            query="",
            question="How many paths of each colour are there, and where do the orange ones end?",
            answer=(
                "14 blue and 16 orange: about half. The orange ones end in the middle, as if they had "
                "learned nothing. But look at the legend: their risk is 0.1155, nearly that of the "
                "oracle, 0.1135. They have learned something that this picture does not show."
            ),
            claims=("slr-09",),
            numbers={
                "14": path_count("", "oracle"),
                "16": path_count("", "swapped"),
                "0.1155": point_value("", "swapped", "risk"),
                "0.1135": point_value("", "oracle", "risk"),
            },
        ),
        Step(
            title="Look from another side",
            sentence=(
                r"The head has two more numbers: \swapped{eta = k.v*}, how much its key points along "
                r"the value direction, and \swapped{theta = v.k*}, how much its value points along "
                r"the key direction. These are the same runs, seen in these two."
            ),
            formula=r"\swapped{eta = k.v*}; \swapped{theta = v.k*}",
            view="landscape",
            query=SWAPPED_PLANE,
            question="Where do the orange paths end now, and where the blue ones?",
            answer=(
                "The orange ones end at eta = 1 and theta = 0.63, or at the opposite point: the key "
                "has become the value and the value points along the key. The roles are swapped. Now "
                "the blue ones end in the middle."
            ),
            claims=("slr-09", "slr-12"),
            numbers={
                "1": point_value(SWAPPED_PLANE, "swapped", "eta"),
                "0.63": point_value(SWAPPED_PLANE, "swapped", "theta"),
            },
        ),
        Step(
            title="Why the wrong way round also works",
            sentence=(
                r"A swapped head weighs the deciding token by its label, and reads off it the shift, "
                r"which is always about sqrt(d/2). Weight times reading is the label again, times a "
                r"constant; \swapped{theta} moves until that constant is near 1, as far as it can."
            ),
            formula=r"T ~ (2/sqrt(pi)) lambda \swapped{theta} sqrt(d/2) Y",
            view="landscape",
            query=f"inverse_temperature=0.05&{SWAPPED_PLANE}",
            question="Here theta is 1. Turn the inverse temperature lambda to 0.1: where does the star go?",
            answer=(
                "Down to theta = 0.63. The weights have become twice as strong, so less of the shift "
                "has to be read."
            ),
            claims=("slr-12", "slr-13"),
            turned=f"inverse_temperature=0.1&{SWAPPED_PLANE}",
            numbers={
                "1": point_value(
                    f"inverse_temperature=0.05&{SWAPPED_PLANE}", "swapped", "theta"
                ),
                "0.63": point_value(
                    f"inverse_temperature=0.1&{SWAPPED_PLANE}", "swapped", "theta"
                ),
            },
        ),
        Step(
            title="Wrong, and sometimes better",
            sentence=(
                r"In this plane both ends are in view: the \oracle{oracle at kappa = 1} and the "
                r"\swapped{swapped minimum at eta = 1}. Both are true minima: no small step from "
                r"either of them lowers the risk."
            ),
            formula=r"\oracle{R(kappa = nu = 1)} > \swapped{R(eta = 1, theta)}",
            view="landscape",
            query=f"inverse_temperature=0.05&{BOTH_MINIMA_PLANE}",
            question="Read the risks in the legend. Which is lower? And at inverse temperature 0.1?",
            answer=(
                "At 0.05 the swapped one is lower, 0.0499 against 0.0793; at 0.1 the oracle is, "
                "0.1135 against 0.1155. They change places at 0.0907."
            ),
            claims=("slr-13",),
            turned=f"inverse_temperature=0.1&{BOTH_MINIMA_PLANE}",
            numbers={
                "0.0499": point_value(
                    f"inverse_temperature=0.05&{BOTH_MINIMA_PLANE}", "swapped", "risk"
                ),
                "0.0793": point_value(
                    f"inverse_temperature=0.05&{BOTH_MINIMA_PLANE}", "oracle", "risk"
                ),
                "0.1155": point_value(
                    f"inverse_temperature=0.1&{BOTH_MINIMA_PLANE}", "swapped", "risk"
                ),
                "0.1135": point_value(
                    f"inverse_temperature=0.1&{BOTH_MINIMA_PLANE}", "oracle", "risk"
                ),
                "0.0907": swapped_and_oracle_cross,
            },
        ),
        Step(
            title="The start decides",
            sentence=(
                r"Every run first leaves the middle, along one of two directions in which the risk "
                r"falls about equally fast. Whichever of the two the start already leans to more "
                r"wins the race: \oracle{kappa and nu}, or \swapped{eta and theta}. The four numbers c "
                r"are known."
            ),
            formula=r"\oracle{|c_1 kappa + c_2 nu|} > \swapped{|c_3 theta + c_4 eta|}",
            view="landscape",
            query=BOTH_MINIMA_PLANE,
            question="Press Next draw (seed 1): other starts. How many swap now?",
            answer=(
                "14, after 16 of 30 before: about half each time, like a coin that was tossed at the "
                "start. Looking at the starts alone, this rule named the end of 27 of the 30 runs of "
                "the first draw."
            ),
            claims=("slr-09", "slr-12"),
            turned=f"{BOTH_MINIMA_PLANE}&seed=1",
            numbers={
                "14": path_count(f"{BOTH_MINIMA_PLANE}&seed=1", "swapped"),
                "16": path_count(BOTH_MINIMA_PLANE, "swapped"),
                "27": _predicted_count,
            },
        ),
        Step(
            title="A start that knows better",
            sentence=(
                r"A first guess from the data is enough. The mean of all tokens of some labelled "
                r"sequences points along \key{k*}, and their covariance with the label along "
                r"\value{v*}. Runs that begin there lean the right way from the first step on."
            ),
            formula=r"\key{k_0} ~ E(sum_l x_l); \value{v_0} ~ E(Y sum_l x_l)",
            view="landscape",
            query="x=kappa&y=eta&start=moments",
            question="How many of the 30 paths swap now? Set Start to sphere to compare.",
            answer=(
                "None: all 30 reach the oracle, where from the sphere 16 swap. The other remedy is the "
                "knob Swap move, which exchanges key and value once if their roles look exchanged."
            ),
            claims=("slr-15",),
            turned=BOTH_MINIMA_PLANE,
            numbers={
                "30": path_count("x=kappa&y=eta&start=moments", "oracle"),
                "16": path_count(BOTH_MINIMA_PLANE, "swapped"),
            },
        ),
    ),
)
