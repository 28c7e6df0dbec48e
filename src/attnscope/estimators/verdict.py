"""The verdict: which problem the bags are, and its sentence.

From held-out bags (fit/evidence.py), in standard errors: `token` and `mean` compared with a
constant, `lead` and `density` compared with the mean token too, `gate` compared with equal weights.
From the given bags: doubt, the share of the labels' spread due to uncertainty about the deciding
token,

    numbers   E sum_l p_l (w_l - sum p w)^2 / Var y          classes   E I(J; y | bag) / H(y).

The verdict is the first that holds:

    none      neither a token (by its predictions or by its density) nor the mean token predicts the
              labels (PREDICTS_STANDARD_ERRORS)
    whole     models of whole bags have more than half of the prediction, and it is better
              (MEAN_LEAD_STANDARD_ERRORS) than the mean token's, also on the given bags
    hidden    the density is high, but not higher (MEAN_LEAD_STANDARD_ERRORS) than with equal
              weights: one token decides, but these features do not show which
    mean      the density is not above the mean token's, and predictions are not better
              (MEAN_LEAD_STANDARD_ERRORS) or come from plain baselines by more than half
    weak      doubt > MAX_DOUBT; or less than half of the prediction is the token's; or predictions
              are not better than the mean token's, held out or on the given bags
    single    otherwise ("witness" if tokens are evidence for the second class only)

notation: J the deciding token, I mutual information, H entropy. The two thresholds are error rates
of normal means; bench/estimators/diagnose_cases.py measures how often each case is named.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "HALF_SHARE",
    "MEAN_TOKEN",
    "NO_TOKEN",
    "SINGLE_LOCATION_VERDICTS",
    "VERDICT_SENTENCES",
    "verdict_of",
]

# from which a model is said to predict the labels: it is the best of several on the same bags, and
# the best of six useless ones gains 1.3 on average
PREDICTS_STANDARD_ERRORS = 2.5
# by which a token that predicts the labels must beat the mean token: 5 %, one-sided
MEAN_LEAD_STANDARD_ERRORS = 1.645
# of the labels' spread: a key of three units leaves a tenth with 100 bags
MAX_DOUBT = 0.1
HALF_SHARE = 0.5  # a larger share of the baselines makes the deciding token the smaller part

NO_TOKEN = "not a single-location problem"
MEAN_TOKEN = "mean"
WHOLE_BAGS = "whole bags"
WEAK_TOKEN = "too weak or not single"
HIDDEN_TOKEN = "one token, not shown by these features"
SINGLE_TOKEN = "single"
WITNESS_TOKEN = "witness"
SINGLE_LOCATION_VERDICTS = (SINGLE_TOKEN, WITNESS_TOKEN)
VERDICT_SENTENCES = {
    NO_TOKEN: "This does not look like a single-location problem: neither one token nor the mean "
    "token predicts the labels of bags that were held out.",
    MEAN_TOKEN: "This does not look like a single-location problem: mean pooling does about as well; "
    "use it instead.",
    WHOLE_BAGS: "This does not look like a single-location problem: the bag as a whole (the mean, "
    "largest and smallest values of its features) predicts the labels better than the mean token.",
    WEAK_TOKEN: "Too weak or not single: a token helps to predict the labels, but too often it stays "
    "in doubt which one, or several decide together.",
    HIDDEN_TOKEN: "One token decides but these features do not show which: held-out labels are near "
    "the value of one of their tokens, and no nearer to that of the token the weights name.",
    SINGLE_TOKEN: "This looks like a single-location problem.",
    WITNESS_TOKEN: "This looks like a single-location problem: some token is evidence for the second class.",
}


def verdict_of(
    evidence: Mapping[str, float],
    facts: Mapping[str, float],
    witness: bool,
    borne_out: bool,
    soft: bool = False,
    whole: bool = False,
) -> str:
    """The verdict. `facts`: doubt, mean_share and mean length of the given bags; `borne_out`: the
    model is better than the mean token on them; `soft`: the model is soft attention or a sum of
    heads, where the label need not be near any token's value, so only predictions count; `whole`:
    models of whole bags make most of the prediction.
    """
    near_one = evidence["density"] > PREDICTS_STANDARD_ERRORS and not soft
    said = evidence["token"] > PREDICTS_STANDARD_ERRORS or near_one
    if facts["length"] <= 1:  # the token is the mean token
        return (
            SINGLE_TOKEN if said or evidence["mean"] > PREDICTS_STANDARD_ERRORS else NO_TOKEN
        )
    if not said and evidence["mean"] <= PREDICTS_STANDARD_ERRORS:
        return NO_TOKEN
    leads = said and evidence["lead"] > MEAN_LEAD_STANDARD_ERRORS
    if whole and leads and borne_out:
        return WHOLE_BAGS
    if near_one and evidence["gate"] <= MEAN_LEAD_STANDARD_ERRORS and not witness:
        return HIDDEN_TOKEN
    mostly_all = facts["mean_share"] > HALF_SHARE
    if not near_one and (mostly_all or not leads):
        return MEAN_TOKEN
    if mostly_all or not (leads and borne_out):
        return WEAK_TOKEN
    if witness:
        return WITNESS_TOKEN
    return SINGLE_TOKEN if facts["doubt"] <= MAX_DOUBT else WEAK_TOKEN
