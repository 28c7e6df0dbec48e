"""How many bags one needs: risks that n labelled sequences can buy, and where more is not enough."""

from __future__ import annotations

from attnscope_explorer.tours.stated_numbers import (
    bags_per_dimension,
    curve_value,
    held_out_result,
    prediction_or_label,
    recovery_threshold,
    token_number,
    view_values,
)
from attnscope_explorer.tours.tour import Step, Tour

__all__ = ["TOUR"]

HARD_PHASE = "length=5&spike=1&noise=0.01"
DRAWN_BAGS = "data=drawn"


def _population_risk() -> float:
    return float(view_values("samples", "")["population"].excess)


def _drawn_bags_per_dimension() -> float:
    """Bags per dimension of the drawn bags."""
    names = view_values("bags", DRAWN_BAGS)
    return len(names["fit_y"]) / names["task"].dim


TOUR = Tour(
    name="bags",
    title="How many bags one needs",
    summary="From labelled sequences alone: what a given number of them can buy, at best and by fitting.",
    steps=(
        Step(
            title="A bag and its label",
            sentence=(
                r"A bag is a few tokens with one label. \informative{One token}, shifted along a key "
                r"direction k*, decided: the label is what it has along a value direction v*. Whoever "
                r"knows k* and v* can find the token and read the label, as here."
            ),
            formula=r"Y = v*.\informative{x_J}",
            view="posterior",
            query="length=3",
            question="Which of the three tokens decided, and what is the label?",
            answer="Token 2, and the label is -1.26; with k* and v* known there is nothing to learn.",
            claims=("exch-18",),
            numbers={
                "2": token_number("length=3"),
                "-1.26": prediction_or_label("length=3", "label"),
            },
        ),
        Step(
            title="Now nobody tells you k* and v*",
            sentence=(
                r"All there is are n bags with their labels. What counts is alpha, bags per dimension. "
                r"The curve is \bayes{the least risk that any method can reach} from that many bags, for "
                r"large d; the dashed line is what one risks with k* and v* known."
            ),
            formula=r"alpha = n/d",
            view="samples",
            query="",
            question="How many bags per dimension does it take to get the risk below a half?",
            answer=(
                "One: at alpha = 1 it is 0.47, down from 1 without bags. With 8 it is 0.163, and with "
                "the truth known 0.145."
            ),
            claims=("samples-01", "samples-02"),
            numbers={
                "0.47": curve_value("", 1),
                "8": bags_per_dimension(8),
                "0.163": curve_value("", 8),
                "0.145": _population_risk,
            },
        ),
        Step(
            title="The key is found first",
            sentence=(
                r"The second panel shows how much of the truth is known: \key{the key, k.k*}, and "
                r"\value{the value, v.v*}; 1 is all of it. Strength is the squared length of the shift, "
                r"and here it is large."
            ),
            formula=r"\key{k.k*} > \value{v.v*}",
            view="samples",
            query="spike=20",
            question="At a quarter of a bag per dimension, which of the two is known better? Turn the strength to 5.",
            answer=(
                "The key, 0.83 against 0.22: a shift shows in the tokens even without labels. With "
                "strength 5 it is 0.46 against 0.15."
            ),
            claims=("samples-01",),
            turned="spike=5",
            numbers={
                "0.83": curve_value("spike=20", 0.25, "key_overlap"),
                "0.22": curve_value("spike=20", 0.25, "value_overlap"),
                "0.46": curve_value("", 0.25, "key_overlap"),
                "0.15": curve_value("", 0.25, "value_overlap"),
            },
        ),
        Step(
            title="Longer bags cost more",
            sentence=(
                r"L = 10 tokens a bag instead of 3. Who decided is harder to find, both while learning "
                r"and afterwards, so the curve is higher everywhere, and so is the dashed line."
            ),
            formula=r"\bayes{R(alpha, L = 10)} > \bayes{R(alpha, L = 3)}",
            view="samples",
            query="length=10",
            question="What is the risk at one bag per dimension? Turn the tokens back to 3 to compare.",
            answer="0.76 with ten tokens a bag, 0.47 with three.",
            claims=("samples-01",),
            turned="length=3",
            numbers={"0.76": curve_value("length=10", 1), "0.47": curve_value("", 1)},
        ),
        Step(
            title="Without noise there is a jump",
            sentence=(
                r"If labels have no noise, every bag is an exact equation for v*. From some number of "
                r"bags on the equations have one solution, and \value{the value} is known completely, at "
                r"once."
            ),
            formula=r"\value{v.v*} = 1",
            view="samples",
            query="noise=0",
            question="From how many bags per dimension is the value known completely? The note has the number.",
            answer=(
                "From 1.05. The key is not known completely there: its overlap is 0.84, because tokens "
                "are noisy even where labels are not."
            ),
            claims=("samples-03",),
            numbers={
                "1.05": recovery_threshold("noise=0", "reachable"),
                "0.84": curve_value("noise=0", 1.0511, "key_overlap"),
            },
        ),
        Step(
            title="A phase that is possible but hard",
            sentence=(
                r"Between two thresholds the truth could be found from the bags, but message passing, the "
                r"best method known that is fast, does not find it. This is the shaded hard phase; the "
                r"last panel shows it for other strengths."
            ),
            formula=r"alpha_possible < alpha < alpha_reached",
            view="samples",
            query=HARD_PHASE,
            question="Between which numbers of bags per dimension is it?",
            answer="From 1.42, where it becomes possible, to 1.96, where message passing gets there.",
            claims=("samples-04",),
            numbers={
                "1.42": recovery_threshold(HARD_PHASE, "possible"),
                "1.96": recovery_threshold(HARD_PHASE, "reachable"),
            },
        ),
        Step(
            title="What a plain fit pays",
            sentence=(
                r"\linear{Linear attention}, fitted to the same bags by least squares with a ridge, needs "
                r"far more of them. Its curve has a gap where its own equations say that they cannot be "
                r"trusted."
            ),
            formula=r"\linear{R_linear} > \bayes{R_Bayes}",
            view="samples",
            query="fits=linear",
            question="What do the two risk at 8 bags per dimension?",
            answer="The fit 0.48, against 0.163 at best.",
            claims=("samples-05", "samples-06"),
            numbers={
                "8": bags_per_dimension(8),
                "0.48": curve_value("fits=linear", 8, curve=1),
                "0.163": curve_value("", 8),
            },
        ),
        Step(
            title="Do it with bags",
            sentence=(
                r"Here are 300 drawn bags of d = 20 numbers a token, and a model that is told nothing but "
                r"bags and labels. Every row of the map is a bag it has not seen; the green dot is the "
                r"token that decided."
            ),
            formula=r"alpha = 300/20",
            view="bags",
            query=DRAWN_BAGS,
            question="How many bags per dimension are these, and in how many new bags does it find the token?",
            answer=(
                "15 bags per dimension, where the curve has come down; it finds the token in 100 % of "
                "the bags held out and explains 98.4 % of their labels."
            ),
            claims=("samples-08", "slr-20"),
            numbers={
                "300": held_out_result(DRAWN_BAGS, "fitted"),
                "20": lambda: view_values("bags", DRAWN_BAGS)["task"].dim,
                "15": _drawn_bags_per_dimension,
                "100": held_out_result(DRAWN_BAGS, "located"),
                "98.4": held_out_result(DRAWN_BAGS, "explained"),
            },
        ),
    ),
)
