"""Does this look like a single-location problem? A verdict (verdict.py), numbers, and a sentence
for each thing that looks wrong.

gain   mean loss of the mean-pool baseline minus that of the model on these bags, with a normal 95 %
    interval of the paired mean (groups of bags are independent; bags of one group need not be)
agreement   share of starts that after a few EM steps reach 90 % of the best start's gain over a
    constant (1 after partial_fit: one start)
attended        mean over bags of exp(entropy of the token weights): 1 = one token, L = equal weights
explained       1 - loss/(loss of a constant) on these bags; 0 if all labels are equal
mean share   share of the plain baselines in the prediction, which read all tokens equally: the mean
    token, the mean of token probabilities, ... (fit/pooled.py, fit/stacking.py)
role swap   key and value with exchanged roles explain y better: attend to the token with the largest
    (or smallest) value, read its score. A model at the role-swapped minimum (its gate is the true
    value, its values the true key) predicts about half of what is possible, with exchanged roles
    nearly all. Several heads: for the head where the difference is largest, on the labels minus the
    predictions of the other heads
position   the located tokens are too often at the same location of equally long bags (chi-squared
    test at 1e-3)
evidence    in standard errors (fit/evidence.py), from fit's held-out folds; after partial_fit, which
    holds no bags out, from these bags
doubt           share of the labels' spread due to uncertainty about the deciding token (verdict.py)
readings    labels 0 and 1: comparison of both readings (compare_readings.py)

The gain is unbiased only on bags that were not used in fit; `cv_gain` and `evidence` come from
fit's own held-out folds. The other numbers are descriptive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscope.estimators.bags.bags import Bags, first_largest
from attnscope.estimators.bags.groups import bag_groups
from attnscope.estimators.compare_readings import compare_readings, reading_warning
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.evidence import evidence, log_densities
from attnscope.estimators.fit.folds import gain_and_error
from attnscope.estimators.fit.heads import residuals
from attnscope.estimators.fit.mixture import (
    Fitted,
    constant_output,
    output_losses,
    probabilities,
    token_scores,
)
from attnscope.estimators.fit.witness_law import WITNESS
from attnscope.estimators.html_repr import diagnosis_html
from attnscope.estimators.verdict import (
    HALF_SHARE,
    MEAN_TOKEN,
    NO_TOKEN,
    SINGLE_LOCATION_VERDICTS,
    VERDICT_SENTENCES,
    verdict_of,
)
from attnscope.numerics.compiled.data_pass import GAUSSIAN, SIGMOID, SOFTMAX, bag_sum

__all__ = ["Diagnosis", "diagnose"]

# a gain below 5 % of the baseline's loss is not worth an attention model
SMALL_GAIN_SHARE = 0.05
POSITION_SIGNIFICANCE = 1e-3  # of the test for equally frequent locations
# a solution that explains more is trusted even if only one start found it: no other can be much
# better
TRUSTED_EXPLAINED_SHARE = 0.9
# with more attended tokens the weights hardly choose
DIFFUSE_TOKEN_SHARE = 0.5


@dataclass(frozen=True)
class Diagnosis:
    """See the module docstring; `str(diagnosis)` is the text."""

    loss: float
    mean_pool_loss: float
    gain: float
    gain_low: float
    gain_high: float
    cv_gain: float
    agreement: float
    explained: float
    attended: float
    mean_share: float
    length: float
    swapped_correlation: float
    value_correlation: float
    position_share: float
    doubt: float
    evidence: dict[str, float]
    readings: dict[str, Any] | None
    verdict: str
    warnings: tuple[str, ...]

    @property
    def single_location(self) -> bool:
        """Is there no warning, including the verdict?"""
        return not self.warnings

    def __str__(self) -> str:
        head = (
            f"loss {self.loss:.4g}, mean-pool baseline {self.mean_pool_loss:.4g}: gain "
            f"{self.gain:.4g} "
            f"[{self.gain_low:.4g}, {self.gain_high:.4g}]; attended tokens {self.attended:.2f} of "
            f"{self.length:.1f}; "
            f"{100 * self.agreement:.0f} % of starts agree."
        )
        if self.mean_share:
            head += f" {100 * self.mean_share:.0f} % of the prediction comes from all tokens equally."
        good = (
            [VERDICT_SENTENCES[self.verdict]]
            if self.verdict in SINGLE_LOCATION_VERDICTS
            else []
        )
        return "\n".join([head, *(self.warnings or good)])

    def _repr_html_(self) -> str:
        return diagnosis_html(self)


def diagnose(model: Any, bags: Any, y: Any, groups: Any = None) -> Diagnosis:
    held = model._read_bags(bags, "diagnose")
    of = f"{type(model).__name__}.diagnose"
    codes = bag_groups(groups, held, of)
    data = model._labelled_data(held, y, "diagnose")._replace(groups=codes)
    roles = [_role_correlations(model, head, held, data) for head in model._all_heads]
    worst = max(
        roles, key=lambda role: role["swapped_correlation"] - role["value_correlation"]
    )
    facts = {
        **_gain_facts(model, data, codes),
        **_attention_facts(model, held, data),
        **worst,
    }
    where = model.locate(bags)
    places = [_position_test(column, held) for column in where.reshape(len(held), -1).T]
    facts["position_share"], p_value = min(places, key=lambda place: place[1])
    facts["doubt"] = _token_doubt(model, held, data)
    found = getattr(model, "evidence_", None) or _evidence_on_bags(model, data)
    beaten = facts["length"] > 1 and _is_mean_as_good(facts)
    witness = model.fitted_.combine == WITNESS
    soft = len(model._all_heads) > 1 or model.fitted_.combine in (SOFTMAX, SIGMOID)
    by_bags = sum(getattr(model, f"{name}_share_", 0.0) for name in ("summary", "forest"))
    verdict = verdict_of(found, facts, witness, not beaten, soft, by_bags > HALF_SHARE)
    warnings = [] if verdict in SINGLE_LOCATION_VERDICTS else [VERDICT_SENTENCES[verdict]]
    if beaten and verdict not in (MEAN_TOKEN, NO_TOKEN):
        warnings.append(VERDICT_SENTENCES[MEAN_TOKEN])
    warnings += _warning_sentences(facts, p_value, len(held), witness)
    readings = compare_readings(model, bags, y, groups, data)
    warnings += reading_warning(model, readings)
    return Diagnosis(
        **facts,
        evidence=dict(found),
        readings=readings,
        verdict=verdict,
        warnings=tuple(warnings),
    )


def _is_mean_as_good(facts: dict[str, float]) -> bool:
    """Does the mean token predict about as well on these bags?"""
    return (
        facts["gain_low"] <= 0 or facts["gain"] < SMALL_GAIN_SHARE * facts["mean_pool_loss"]
    )


def _evidence_on_bags(model: Any, data: Data) -> dict[str, float]:
    losses = output_losses(
        model._standardised_answers(data.tokens, data.offsets).output, data
    )
    return evidence(data, losses, log_densities(model.fitted_, data), None)


def _token_doubt(model: Any, held: Bags, data: Data) -> float:
    """The largest doubt of all heads; 0 for the witness reading, where several tokens may count."""
    worst = 0.0
    for head in model._all_heads:
        if head.combine == WITNESS:
            continue
        p = model._token_weights(held, None, head)
        value = data.tokens @ head.values.weights + head.values.bias
        if data.family != GAUSSIAN:
            value = probabilities(value)
        mean = bag_sum(p[:, None] * value, data.offsets)
        if data.family == GAUSSIAN:
            # fit's labels have variance 1
            each = ((value - data.per_token(mean)) ** 2).sum(axis=1)
            doubt = float(bag_sum(p * each, data.offsets).mean())
        else:
            whole = float(_row_entropy(constant_output(data)).mean())
            apart = _row_entropy(mean) - bag_sum(p * _row_entropy(value), data.offsets)
            doubt = float(apart.mean()) / max(whole, 1e-300)
        worst = max(worst, doubt)
    return min(worst, 1.0)


def _row_entropy(p: np.ndarray) -> np.ndarray:
    return -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)


def _gain_facts(model: Any, data: Data, codes: np.ndarray | None) -> dict[str, float]:
    unit = model.scaling_.label_scale**2
    own = (
        output_losses(model._standardised_answers(data.tokens, data.offsets).output, data)
        * unit
    )
    if hasattr(model, "mean_pool_"):
        base = (
            output_losses(model.mean_pool_.answers(data.tokens, data.offsets).output, data)
            * unit
        )
        cv_gain = float(np.mean(model.cv_mean_pool_losses_) - np.mean(model.cv_losses_))
    else:  # after partial_fit there is no baseline but the mean label, or the classes' shares
        base = _constant_losses(data) * unit
        cv_gain = 0.0
    gain = base - own
    half = 1.96 * gain_and_error(gain, np.ones(len(gain)), codes)[1]
    losses = list(getattr(model, "start_losses_", {"only": 0.0}).values())
    # fit's labels have variance 1
    nothing = 1.0 if data.family == GAUSSIAN else float(_constant_losses(data).mean())
    enough = min(losses) + 0.1 * max(nothing - min(losses), 0.0)
    agreement = float(np.mean([loss <= enough for loss in losses]))
    centre = float(gain.mean())
    null = float(_constant_losses(data).mean()) * unit
    return {
        "loss": float(own.mean()),
        "mean_pool_loss": float(base.mean()),
        "gain": centre,
        "gain_low": centre - half,
        "gain_high": centre + half,
        "cv_gain": cv_gain,
        "agreement": agreement,
        "explained": 1 - float(own.mean()) / null if null > 0 else 0.0,
    }


def _constant_losses(data: Data) -> np.ndarray:
    """Loss of each bag under a constant: the squared label (fit centres labels), or minus the log
    share of its class.
    """
    return (
        data.labels**2
        if data.family == GAUSSIAN
        else output_losses(constant_output(data), data)
    )


def _attention_facts(model: Any, held: Bags, data: Data) -> dict[str, float]:
    """Attended tokens, averaged over bags and heads; share of the baselines; mean length."""
    attended = []
    for head in model._all_heads:
        p = model._token_weights(held, None, head)
        attended.append(
            np.exp(-bag_sum(p * np.log(np.maximum(p, 1e-300)), data.offsets)).mean()
        )
    length = float(data.lengths.mean())
    return {
        "attended": float(np.mean(attended)),
        "mean_share": model._mean_share,
        "length": length,
    }


def _role_correlations(model: Any, head: Fitted, held: Bags, data: Data) -> dict[str, float]:
    """|correlation| of the labels with the attended value, and with the score of the token of
    extreme value (the largest over columns and ends).
    """
    if len(model._all_heads) > 1:
        data = data._replace(
            labels=residuals([other for other in model._all_heads if other is not head], data)
        )
    p = model._token_weights(held, None, head)
    score = token_scores(head, data.tokens)
    values = data.tokens @ head.values.weights
    attended = bag_sum(p[:, None] * values, data.offsets)
    exchanged = [
        score[first_largest(sign * value, held)] for value in values.T for sign in (1, -1)
    ]
    classes = (
        [data.labels]
        if data.outputs == 1
        else [data.labels == c for c in range(data.outputs)]
    )
    return {
        "swapped_correlation": max(
            _abs_correlation(read, c) for read in exchanged for c in classes
        ),
        "value_correlation": max(_abs_correlation(v, c) for v in attended.T for c in classes),
    }


def _abs_correlation(a: np.ndarray, b: np.ndarray) -> float:
    a = a - a.mean()
    b = b - b.mean()
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return abs(float(a @ b)) / size if size > 1e-12 else 0.0


def _position_test(where: np.ndarray, held: Bags) -> tuple[float, float]:
    """Share of the commonest position, and the p-value of all positions being equally common (1 for
    unequal bags).
    """
    from scipy.stats import chi2  # imported late: half a second

    length = int(held.lengths.max())
    counts = np.bincount(where)
    share = float(counts.max() / len(where))
    if length == 1 or held.lengths.min() < length:
        return share, 1.0
    counts = np.bincount(where, minlength=length)
    expected = len(where) / length
    return share, float(chi2.sf(((counts - expected) ** 2 / expected).sum(), length - 1))


def _warning_sentences(
    facts: dict[str, float], p_value: float, n: int, witness: bool
) -> list[str]:
    out = []
    if facts["length"] > 1 and facts["attended"] > 1 + DIFFUSE_TOKEN_SHARE * (
        facts["length"] - 1
    ):
        out.append(
            "The weights are spread over most tokens: no single token decides, or the key is too "
            "weak to find it."
        )
    if facts["mean_share"] > HALF_SHARE:
        out.append(
            "Most of the prediction comes from all tokens equally: `locate` names the token of "
            "the smaller part."
        )
    if facts["agreement"] <= 1 / 8 and facts["explained"] < TRUSTED_EXPLAINED_SHARE:
        out.append(
            "Only one start found this solution: refit with larger n_starts and another "
            "random_state before trusting it."
        )
    if not witness and facts["swapped_correlation"] > facts["value_correlation"] + 0.1:
        out.append(
            "Score and value look swapped: the score of the token with the extreme value explains "
            "y better than this model does."
        )
    if p_value < POSITION_SIGNIFICANCE and n >= 20:
        share = 100 * facts["position_share"]
        out.append(
            f"The located tokens pile up at one position ({share:.0f} % of bags): check for a "
            "position shortcut."
        )
    return out
