"""Which basin to go down: EM, or L-BFGS on the bag loss, from the start whose held-out loss is
lowest.

Every start takes a few steps on a few folds; the best that differ go on to all folds (`_screened`).
EM then runs to its end from the best, and on a few folds from the second unless it is clearly
worse. On all bags it goes on from the fold that did best: a fresh start could fall into another
basin. What was found in fewer directions (subspace.py) is a start too, or the only one (`wider`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.em import Em, run_em
from attnscope.estimators.fit.held_out import (
    CAUTION,
    PROBE_BAGS,
    Fold,
    Options,
    Track,
    average_loss,
    best_fold,
    better,
    each,
    gain_and_error,
    held_out,
    mean_loss,
    probe_folds,
)
from attnscope.estimators.fit.mixture import (
    Fitted,
    constant_output,
    freed,
    from_em,
    output_losses,
    refine,
)
from attnscope.estimators.fit.quick_em import run_tied, screen_starts
from attnscope.estimators.fit.ridge import values_from
from attnscope.estimators.fit.starts import bag_moments, make_starts
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = ["Screened", "em_of", "em_track", "fresh_track", "promising", "quick_em", "wider"]

SCREEN_STEPS = 4  # EM steps before starts are compared: right and wrong basins differ by then
# EM steps from what was found in fewer directions: it is nearly there, or hardly moves at all
WIDER_STEPS = 6
# EM steps of numbers on all bags in chosen directions, from a fold that has gone to its end: where the key is
# weak all thirty would be taken, for less than a thousandth of the error
LAST_STEPS = 12
# gain in log likelihood per bag that ends EM on folds, which are compared to a standard error
ROUGHLY = 1e-4
EXACTLY = 1e-6  # the same on all bags, with every feature or of classes
# bags per feature from which the deciding tokens' own covariance enters: with fewer it is mostly
# noise
OWN = 2
# starts whose held-out losses differ bag by bag by less than this share have found the same
SAME = 0.01
LOST = 2.0  # standard errors by which a start may be behind the best on a few folds and go on
FINALISTS = 3  # starts that are run on all folds, after all of them on a few
SCREEN_LBFGS = 30  # L-BFGS steps before fresh starts are compared
FRESH_RIDGE = 10.0  # gate ridge of fresh starts: mid-path
# first ridge of V for classes: one unit of log likelihood per unit weight, as is usual
CLASS_PRECISION = 1.0

Screened = Sequence[dict[str, Em]]  # starts after a few steps, by name, of the first folds


def em_track(
    data: Data,
    folds: list[Fold],
    options: Options,
    rival: Track | None = None,
    beat: float = np.inf,
    screened: Screened = (),
    par: float = np.inf,
) -> tuple[Track | None, dict[str, float]]:
    """EM from the best start, and the starts' losses; None if after a few steps no loss is below
    `beat` on the first folds or below `par` on all, or EM does not lead over `rival` on the first.
    `screened`: what `promising` has made of the first folds."""

    def screen(fold: Fold, names: list[str] | None = None) -> dict[str, Em]:
        for known, made in zip(folds, screened):
            if fold is known:
                return {name: made[name] for name in names or made}
        return _few_steps(fold, options, names)

    def run(started: list[Em], folds: list[Fold]) -> list[Em]:
        return _on_folds(started, folds, options)

    def losses_of(ems: list[Em], folds: list[Fold]) -> np.ndarray:
        return held_out(folds, [from_em(em, data.family) for em in ems])

    found, losses = _screened(folds, screen, lambda em: from_em(em, data.family), options)
    if min(losses.values()) > beat:
        return None, losses
    if min(mean_loss(folds, track) for track, _ in found.values()) > par:
        return None, losses
    names = _finalists(folds, {name: track for name, (track, _) in found.items()})
    for name in names:
        tails = "" if np.isinf(options.dof) else ", Student-t tokens"
        loss = mean_loss(folds, found[name][0])
        options.say(
            f"start {name}{tails}: held-out loss {loss:.4g} after {SCREEN_STEPS} EM steps"
        )
    probe = probe_folds(folds)
    begun = {name: run(found[name][1], folds[:probe]) for name in names}
    seen = {name: losses_of(ems, folds[:probe]) for name, ems in begun.items()}
    name = min(
        names, key=lambda name: average_loss(folds, seen[name], np.isfinite(seen[name]))
    )
    if rival is not None and gain_and_error(rival.losses - seen[name], data.weight)[0] <= 0:
        return None, losses
    ems = begun[name] + run(found[name][1][probe:], folds[probe:])
    return _em_candidate(ems, folds, options), losses


def promising(folds: list[Fold], options: Options) -> tuple[bool, Screened]:
    """Does any start, after a few steps on the first fold (or as many as hold out PROBE_BAGS bags),
    explain held-out labels clearly better than a constant? And what was made there.
    """
    data = folds[0].data
    held = np.cumsum([len(fold.out) for fold in folds])
    first = folds[: int(np.searchsorted(held, PROBE_BAGS)) + 1]
    made = each(lambda fold: _few_steps(fold, options), first, options.workers)
    constant = output_losses(constant_output(data), data)
    for name in made[0]:
        losses = held_out(first, [from_em(em[name], data.family) for em in made])
        if _below(losses, constant, folds):
            return True, made
    return False, made


def quick_em(fold: Fold, options: Options) -> Fitted:
    """EM on one fold, from the start that does best on its held-out bags after a few steps."""
    family = fold.data.family
    started = list(_few_steps(fold, options).values())
    losses = [np.nanmean(held_out([fold], [from_em(em, family)])) for em in started]
    return from_em(_on_folds([started[int(np.argmin(losses))]], [fold], options)[0], family)


def _few_steps(fold: Fold, options: Options, names: list[str] | None = None) -> dict[str, Em]:
    """Starts of these names (None: all) after SCREEN_STEPS steps on the fold's bags."""
    options.clock.check()
    train = fold.train
    ridge = options.alpha_value
    precision = CLASS_PRECISION if ridge is None or train.family == GAUSSIAN else ridge
    starts = _starts(train, options, precision)
    return screen_starts(
        {name: starts[name] for name in names or starts},
        train,
        options.gate != "linear",
        SCREEN_STEPS,
        ridge,
    )


def wider(ems: list[Em], folds: list[Fold], options: Options) -> Track:
    """EM from what it found in the first of these directions, one result per fold."""
    few = options._replace(em_steps=WIDER_STEPS)
    started = [_padded(em, folds[0].data) for em in ems]
    return _em_candidate(_on_folds(started, folds, few), folds, options)


def em_of(track: Track) -> list[Em]:
    """The results of EM that a track of EM alone holds, one per fold."""
    return [
        Em(model.tokens, model.values) for model in track.models if model.tokens is not None
    ]


def _padded(em: Em, data: Data) -> Em:
    """The same model where further directions, uncorrelated with these, say nothing."""
    k = len(em.tokens.mean)
    more = data.tokens.shape[1] - k
    spread = data.tokens[:, k:].std(axis=0)
    whiten = np.diag(1 / np.where(spread > 0, spread, 1.0))
    whiten = np.pad(whiten, ((k, 0), (k, 0)))
    whiten[:k, :k] = em.tokens.whiten
    weights = np.pad(em.values.weights, ((0, more), (0, 0)))
    values = values_from(weights, em.values.bias, em.values.variance, em.values.precision)
    longer = em.tokens._replace(
        mean=np.pad(em.tokens.mean, (0, more)),
        whiten=whiten,
        key=np.pad(em.tokens.key, (0, more)),
    )
    return Em(longer, values)


def _on_folds(started: list[Em], folds: list[Fold], options: Options) -> list[Em]:
    def run(job: tuple[Em, Fold]) -> Em:
        options.clock.check()
        return _em(job[0], job[1].train, options, ROUGHLY)

    return each(run, list(zip(started, folds)), options.workers)


def _em_candidate(ems: list[Em], folds: list[Fold], options: Options) -> Track:
    """The track of these results of EM; on all bags it goes on from the fold that did best."""
    family = folds[0].data.family
    models = [from_em(em, family) for em in ems]
    held = held_out(folds, models)
    best = ems[best_fold(folds, held)]

    def to_its_end(model: Fitted, bags: Data) -> Fitted:
        if not options.surrender or bags.family != GAUSSIAN:
            return from_em(_em(best, bags, options, EXACTLY), bags.family)
        few = options._replace(em_steps=min(options.em_steps, LAST_STEPS))
        return from_em(_em(best, bags, few, ROUGHLY), bags.family)

    return Track(models, held, (("em", to_its_end),))


def _em(em: Em, data: Data, options: Options, tol: float) -> Em:
    quadratic = options.gate != "linear"
    ridge = options.alpha_value
    if data.size < OWN * data.tokens.shape[1]:
        return run_tied(em, data, quadratic, options.em_steps, ridge)
    return run_em(em, data, quadratic, options.em_steps, ridge, tol)


def _screened(
    folds: list[Fold],
    screen: Callable[..., dict],
    as_model: Callable[..., Fitted],
    options: Options,
    par: np.ndarray | None = None,
) -> tuple[dict[str, tuple[Track, list]], dict[str, float]]:
    """Every start on a few folds, the best that differ on all: by name a track and what `screen`
    made of each fold; and every start's loss. None goes on if none is clearly below `par` (n,)
    there.
    """
    first = folds[: probe_folds(folds)]
    probed = each(screen, first, options.workers)
    seen = {
        name: held_out(first, [as_model(made[name]) for made in probed]) for name in probed[0]
    }
    losses = {name: average_loss(folds, row, np.isfinite(row)) for name, row in seen.items()}
    if par is not None and not any(_below(row, par, folds) for row in seen.values()):
        return {}, losses
    names: list[str] = []
    for name in sorted(losses, key=lambda name: losses[name]):
        data = folds[0].data
        lag = seen[name] - seen[names[0] if names else name]
        behind, error = gain_and_error(lag, data.weight, data.groups)
        known = any(_same(seen[name], seen[other]) for other in names)
        if len(names) < FINALISTS and not known and behind <= LOST * error:
            names.append(name)
    made = probed + each(
        lambda fold: screen(fold, names), folds[len(first) :], options.workers
    )
    found = {}
    for name in names:
        parts = [part[name] for part in made]
        models = [as_model(part) for part in parts]
        found[name] = Track(models, held_out(folds, models), ()), parts
    return found, losses


def _below(losses: np.ndarray, par: np.ndarray, folds: list[Fold]) -> bool:
    """By more standard errors than the best of eight useless starts (1.4)?"""
    gain, error = gain_and_error(par - losses, folds[0].data.weight)
    return gain > CAUTION * error


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Have two candidates with these held-out losses found the same?"""
    return bool(np.nanmean(np.abs(a - b)) <= SAME * np.nanmean(b))


def _finalists(folds: list[Fold], found: dict[str, Track]) -> list[str]:
    """The best start, and the second unless it is clearly worse or is the same solution."""
    first, *rest = sorted(found, key=lambda name: mean_loss(folds, found[name]))
    second = next(
        (name for name in rest if not _same(found[name].losses, found[first].losses)), None
    )
    return (
        [first]
        if second is None or better(folds, found[first], found[second])
        else [first, second]
    )


def fresh_track(
    data: Data, folds: list[Fold], options: Options, par: np.ndarray | None = None
) -> Track | None:
    """L-BFGS straight from the starts, without EM: for tokens whose mixture the token model would
    explain by something other than y. None if no start is below `par` (n,) on the first folds.
    """
    precision = CLASS_PRECISION if options.alpha_value is None else options.alpha_value

    def screen(fold: Fold, names: list[str] | None = None) -> dict[str, Fitted]:
        options.clock.check()
        train = fold.train
        starts = _starts(train, options, precision)
        models = {
            name: freed(from_em(starts[name], data.family), train, options.gate != "linear")
            for name in names or starts
        }
        return {
            name: refine(m, train, FRESH_RIDGE, m.values.precision, SCREEN_LBFGS)
            for name, m in models.items()
        }

    found, _ = _screened(folds, screen, lambda model: model, options, par)
    if not found:
        return None
    best = min(
        (track for track, _ in found.values()), key=lambda track: mean_loss(folds, track)
    )
    chosen = best.models[best_fold(folds, best.losses)]
    return best._replace(stages=(("fresh start", lambda model, bags: chosen),))


def _starts(train: Data, options: Options, precision: float) -> dict[str, Em]:
    """The starts of one fold, from its moments."""
    assert train.origin is not None
    moments = bag_moments(train)
    many = (options.n_starts, options.seed, options.dof)
    return make_starts(moments, train.family, train.origin, *many, precision)
