"""A deciding token found in a few directions, as where richer models of more of them begin.

notation: x = a token (d,), t = B^T x (k,) its coordinates in the directions of the search
(subspace.py), r_l = responsibility of token l for its bag's label.

    score    that of the model of t, written as one of x: exactly the same
    values   V^T x + b by the evidence ridge on x, with the r_l of the model of t: one M step

EM on x itself would spend d/n whitened units of error on its key before it begins (450 tweets,
384 word features: held-out loss .93 of a constant's from starts of its own, .56 in 16 directions,
.45 carried on from there). What the score may gain from further directions is left to `freed`,
whose ridge holds them back.
"""

from __future__ import annotations

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import Fold, Options, Track, held_out
from attnscope.estimators.fit.mixture import Fitted, no_features, token_scores
from attnscope.estimators.fit.quick_em import given_label, value_step
from attnscope.estimators.fit.subspace import Subspace, in_subspace, lifted

__all__ = ["carried", "is_carried"]


def carried(track: Track, folds: list[Fold], options: Options, space: Subspace) -> Track:
    """EM's track in `space`, a part of the directions of these folds, as a track of theirs.
    Numbers only.
    """

    def onward(model: Fitted, bags: Data) -> Fitted:
        return _with_values(lifted(model, space), bags, options.alpha_value)

    def again(model: Fitted, bags: Data) -> Fitted:
        inside = in_subspace(bags, space)
        model = track.models[0]
        for _, stage in track.stages:
            model = stage(model, inside)
        return onward(model, bags)

    models = [onward(model, fold.train) for model, fold in zip(track.models, folds)]
    return Track(models, held_out(folds, models), (("em", again),))


def is_carried(model: Fitted) -> bool:
    """Does its token model see fewer directions than its values?"""
    return model.tokens is not None and len(model.tokens.key) < len(model.values.weights)


def _with_values(model: Fitted, bags: Data, ridge: float | None) -> Fitted:
    r = given_label(token_scores(model, bags.tokens), model.values, bags)
    values = value_step(r * bags.per_token(bags.weight), r, model.values, bags, ridge)
    return model._replace(values=values, features=no_features(bags.tokens.shape[1]))
