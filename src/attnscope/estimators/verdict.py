"""Which problem this is: one word, and the sentence that goes with it.

Of held-out bags (fit/evidence.py), in standard errors: `token` and `mean` against no tokens, `lead`
and `density` also against the mean token, `gate` against equal weights. Of the bags at hand: doubt,
the share of the labels' spread that is doubt about which token decides,

    numbers   E sum_l p_l (w_l - sum p w)^2 / Var y          classes   E I(J; y | bag) / H(y).

The rule, the first that holds:

    none      neither a token (by its predictions or by its density) nor the mean token says anything
              of the labels (SAYS)
    whole     models of whole bags have more than half of the prediction, and it is better (LEAD)
              than the mean token's, on the bags at hand too
    hidden    the density says so, and is no higher (LEAD) than with equal weights: one token
              decides, but these features do not show which
    mean      the density says no more than the mean token's, and predictions are no better (LEAD)
              or read from all tokens alike by more than half
    weak      doubt > DOUBT; or less than half of the prediction is the token's; or predictions no
              better than the mean token's, held out or on the bags at hand
    single    else ("witness" where tokens speak for the second class only)

notation: J the deciding token, I mutual information, H entropy. SAYS and LEAD are error rates of
normal means; how often each case is named is measured by bench/estimators/diagnose_cases.py.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["GOOD", "HALF", "MEAN", "NONE", "SENTENCES", "verdict_of"]

# standard errors before anything is said to predict labels: the model is the best of several on the
# same bags, and the best of six useless ones gains 1.3 on average
SAYS = 2.5
# standard errors by which a token that says something must beat the mean token: 5 %, one-sided
LEAD = 1.645
DOUBT = (
    0.1  # of the labels' spread: a tenth is what a key of three units leaves with 100 bags
)
HALF = 0.5  # a larger share of the mean token makes the deciding one the lesser part

NONE = "not a single-location problem"
MEAN = "mean"
WHOLE = "whole bags"
WEAK = "too weak or not single"
HIDDEN = "one token, not shown by these features"
SINGLE = "single"
WITNESS = "witness"
GOOD = (SINGLE, WITNESS)
SENTENCES = {
    NONE: "This does not look like a single-location problem: neither one token nor the mean "
    "token predicts the labels of bags that were held out.",
    MEAN: "This does not look like a single-location problem: mean pooling does about as well; "
    "use it instead.",
    WHOLE: "This does not look like a single-location problem: bags are told apart as a whole (by "
    "the mean, largest and smallest values of their features), better than by the mean token.",
    WEAK: "Too weak or not single: a token helps to predict the labels, but too often it stays "
    "in doubt which one, or several decide together.",
    HIDDEN: "One token decides but these features do not show which: held-out labels are near "
    "the value of one of their tokens, and no nearer to that of the token the weights name.",
    SINGLE: "This looks like a single-location problem.",
    WITNESS: "This looks like a single-location problem: some token speaks for the second class.",
}


def verdict_of(
    evidence: Mapping[str, float],
    facts: Mapping[str, float],
    witness: bool,
    borne_out: bool,
    soft: bool = False,
    whole: bool = False,
) -> str:
    """`facts`: doubt, mean_share and mean length of the bags at hand; `borne_out`: a gain over the
    mean token on them; `soft`: labels are read from soft attention or are sums of heads, to which no
    one token's value need come near, so that predictions alone are asked; `whole`: most of the prediction is that of models of whole
    bags.
    """
    near_one = evidence["density"] > SAYS and not soft
    said = evidence["token"] > SAYS or near_one
    if facts["length"] <= 1:  # the token is the mean token
        return SINGLE if said or evidence["mean"] > SAYS else NONE
    if not said and evidence["mean"] <= SAYS:
        return NONE
    leads = said and evidence["lead"] > LEAD
    if whole and leads and borne_out:
        return WHOLE
    if near_one and evidence["gate"] <= LEAD and not witness:
        return HIDDEN
    mostly_all = facts["mean_share"] > HALF
    if not near_one and (mostly_all or not leads):
        return MEAN
    if mostly_all or not (leads and borne_out):
        return WEAK
    if witness:
        return WITNESS
    return SINGLE if facts["doubt"] <= DOUBT else WEAK
