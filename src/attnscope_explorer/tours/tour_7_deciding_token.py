"""Which token decided: a digit among digits, a word in a sentence."""

from __future__ import annotations

from attnscope_explorer.tours.stated_numbers import bag_value, held_out_result, view_values
from attnscope_explorer.tours.tour import Step, Tour

__all__ = ["TOUR"]


def _pictures_per_bag() -> float:
    """Pictures in a bag."""
    return float(len(view_values("bags", "")["test_bags"][0]))


TOUR = Tour(
    name="deciding-token",
    title="Which token decided",
    summary="A model that is told labels only finds the digit, or the word, that they came from.",
    steps=(
        Step(
            title="A bag of digits",
            sentence=(
                r"A bag has 8 small pictures of digits. Exactly one of them is a 0, and the label is a "
                r"number computed from the pixels of this one. The model was given 240 bags with their "
                r"labels, and not a word about digits. \informative{The token it chose} is outlined."
            ),
            formula=r"Y = v.\informative{x_J}",
            view="bags",
            query="",
            question="Look at the row of pictures below the figure. Which one is outlined, and what is on it?",
            answer="The first, and it is the 0.",
            claims=("slr-20",),
            numbers={
                "8": _pictures_per_bag,
                "240": held_out_result("", "fitted"),
                "0": bag_value("", 1, "digit"),
            },
        ),
        Step(
            title="Another bag",
            sentence=(
                r"A bag that the model has not seen, with the 0 in another place. Attention is a number "
                r"for each token, from 0 to 1: how much of the prediction is read from it."
            ),
            formula=r"T = sum_l \informative{w_l} (v.x_l)",
            view="bags",
            query="bag=3",
            question="On which token does the attention lie in bag 3? Then turn to bag 5.",
            answer="In bag 3 on token 6, in bag 5 on token 7: each time the 0, each time all of it.",
            claims=("slr-16", "slr-20"),
            turned="bag=5",
            numbers={
                "6": bag_value("", 3, "token"),
                "7": bag_value("", 5, "token"),
                "0": bag_value("", 5, "digit"),
            },
        ),
        Step(
            title="How often it is right",
            sentence=(
                r"One row of the map per bag, bright where the attention is; the green dots are the "
                r"tokens that decided, which the model was never told. l is the token it chose, J the one "
                r"that decided."
            ),
            formula=r"P(\informative{l = J}) = 1",
            view="bags",
            query="bag=8",
            question="Is there a row whose dot is not on the bright token? The table says how many were located.",
            answer=(
                "None: it located the 0 in 100 % of the 100 bags held out, and its predictions explain "
                "98.8 % of the variance of their labels."
            ),
            claims=("slr-16",),
            numbers={
                "100": held_out_result("", "located"),
                "98.8": held_out_result("", "explained"),
                "0": bag_value("", 8, "digit"),
            },
        ),
        Step(
            title="Without attention",
            sentence=(
                r"Mean pooling reads all pictures of a bag alike and predicts from their mean. The last "
                r"panel shows what each token of this bag would answer on its own; the dashed line is "
                r"the label."
            ),
            formula=r"T = (1/L) sum_l (v.x_l)",
            view="bags",
            query="bag=4",
            question="How much of the labels does mean pooling explain, according to the table?",
            answer=(
                "Minus 13.7 %: it is worse than always predicting the mean label, for seven of eight "
                "pictures tell it nothing but noise."
            ),
            claims=("slr-03",),
            numbers={"13.7": lambda: -held_out_result("", "pooled")()},
        ),
        Step(
            title="A sentence",
            sentence=(
                r"The same model on sentences. A token is a word, as a vector of numbers; the label is 1 "
                r"for a kind sentence and 0 for an unkind one, and one adjective makes the difference."
            ),
            formula=r"P(Y = 1) = sigmoid(v.\informative{x_J} + c)",
            view="bags",
            query="data=text",
            question="Which word below the figure is shaded and outlined?",
            answer="Word 14: awful. It has 100 % of the attention.",
            claims=("beyond-16", "beyond-17"),
            numbers={
                "14": bag_value("data=text", 1, "token"),
                "100": lambda: 100 * bag_value("data=text", 1, "weight")(),
            },
        ),
        Step(
            title="Other sentences",
            sentence=(
                r"Of every bag held out the model says which word decided. The names of towns, the days "
                r"and the animals change from sentence to sentence too, but they have nothing to do with "
                r"the label, and get no attention."
            ),
            formula=r"\informative{w_J} ~ 1",
            view="bags",
            query="data=text&bag=5",
            question="Which word decided in sentence 5? Turn to sentence 6: and there?",
            answer=(
                "Pathetic in the one, superb in the other. It is right about 100 % of the sentences held "
                "out, and about 100 % of the words."
            ),
            claims=("beyond-16",),
            turned="data=text&bag=6",
            numbers={"100": held_out_result("data=text", "right")},
        ),
        Step(
            title="When nobody tells you",
            sentence=(
                r"Bags drawn from the theory, where the deciding token is known. Attention is high where "
                r"the model thinks the shift is; whether it is right can be checked against the green "
                r"dots. With your own bags it cannot: there the note below the figure says what the fit "
                r"itself shows."
            ),
            formula=r"T = sum_l \informative{w_l} (v.x_l)",
            view="bags",
            query="data=drawn&bag=2",
            question="What is the diagnosis, the last sentence of the note?",
            answer="This looks like a single-location problem: one token per bag decides.",
            claims=("samples-08",),
        ),
    ),
)
