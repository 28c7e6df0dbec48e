"""Choose the start: EM, or L-BFGS on the bag loss, from the start with the lowest held-out loss.

Every start takes a few steps on a few folds. The best ones that differ go on to all folds
(`_best_starts`). EM then runs to its end from the best start, and on a few folds from the second
one unless that is clearly worse. The fit on all bags continues from the fold that did best, because
a fresh start could end in another basin. A solution found in fewer directions (subspace.py) also
serves as a start, or as the only one (`em_in_more_directions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.em import EM_STOP_GAIN, Em, run_em
from attnscope.estimators.fit.held_out import (
    PROBE_BAGS,
    RIVAL_GAIN_STANDARD_ERRORS,
    Fold,
    Options,
    Track,
    average_loss,
    best_fold,
    gain_and_error,
    held_out,
    is_better,
    map_jobs,
    mean_loss,
    probe_folds,
)
from attnscope.estimators.fit.mixture import (
    Fitted,
    constant_output,
    from_em,
    output_losses,
    refine,
    with_free_score,
)
from attnscope.estimators.fit.quick_em import run_tied, screen_starts
from attnscope.estimators.fit.ridge import values_from
from attnscope.estimators.fit.starts import CLASS_PRECISION, bag_moments, make_starts
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = [
    "Screened",
    "em_in_more_directions",
    "em_results",
    "em_track",
    "fresh_track",
    "promising_starts",
    "quick_em",
]

SCREEN_STEPS = 4  # EM steps before starts are compared: right and wrong basins differ by then
# EM steps from a solution found in fewer directions, which is nearly converged or hardly moves
WIDENED_EM_STEPS = 6
# EM steps for numbers on all bags in chosen directions, from a fold that has converged: with a weak
# key all thirty steps would be taken and change the error by less than a thousandth
FINAL_EM_STEPS = 12
# gain in log likelihood per bag that ends EM on folds, whose losses are compared to within a
# standard error only
FOLD_STOP_GAIN = 1e-4
# bags per feature from which the deciding tokens get a covariance of their own: with fewer bags it
# is mostly noise
OWN_COVARIANCE_BAGS_PER_FEATURE = 2
# starts whose held-out losses differ by less than this share, bag by bag, found the same solution
SAME_LOSS_SHARE = 0.01
# standard errors by which a start may be behind the best on a few folds and go on
MAX_LAG_STANDARD_ERRORS = 2.0
FINALIST_COUNT = 3  # starts that run on all folds, after every start ran on a few
SCREEN_LBFGS_STEPS = 30  # L-BFGS steps before fresh starts are compared
FRESH_GATE_RIDGE = 10.0  # gate ridge of fresh starts: mid-path

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
    """EM from the best start, and the starts' losses. The track is None if, after a few steps, no
    loss is below `beat` on the first folds or below `par` on all folds, or if EM is not better than
    `rival` on the first folds. `screened`: the result of `promising_starts` on the first folds.
    """

    def screen(fold: Fold, names: list[str] | None = None) -> dict[str, Em]:
        for known, made in zip(folds, screened):
            if fold is known:
                return {name: made[name] for name in names or made}
        return _screened_starts(fold, options, names)

    def run(started: list[Em], folds: list[Fold]) -> list[Em]:
        return _em_on_folds(started, folds, options)

    def losses_of(ems: list[Em], folds: list[Fold]) -> np.ndarray:
        return held_out(folds, [from_em(em, data.family) for em in ems])

    found, losses = _best_starts(folds, screen, lambda em: from_em(em, data.family), options)
    if min(losses.values()) > beat:
        return None, losses
    if min(mean_loss(folds, track) for track, _ in found.values()) > par:
        return None, losses
    names = _finalist_names(folds, {name: track for name, (track, _) in found.items()})
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


def promising_starts(folds: list[Fold], options: Options) -> tuple[bool, Screened]:
    """Whether any start, after a few steps on the first folds (enough to hold out PROBE_BAGS bags),
    explains held-out labels clearly better than a constant; and the starts after these steps.
    """
    data = folds[0].data
    held = np.cumsum([len(fold.out) for fold in folds])
    first = folds[: int(np.searchsorted(held, PROBE_BAGS)) + 1]
    made = map_jobs(lambda fold: _screened_starts(fold, options), first, options.workers)
    constant = output_losses(constant_output(data), data)
    for name in made[0]:
        losses = held_out(first, [from_em(em[name], data.family) for em in made])
        if _is_clearly_below(losses, constant, folds):
            return True, made
    return False, made


def quick_em(fold: Fold, options: Options) -> Fitted:
    """EM on one fold, from the start with the lowest held-out loss after a few steps."""
    family = fold.data.family
    started = list(_screened_starts(fold, options).values())
    losses = [np.nanmean(held_out([fold], [from_em(em, family)])) for em in started]
    return from_em(
        _em_on_folds([started[int(np.argmin(losses))]], [fold], options)[0], family
    )


def _screened_starts(
    fold: Fold, options: Options, names: list[str] | None = None
) -> dict[str, Em]:
    """Starts of these names (None: all) after SCREEN_STEPS steps on the fold's bags."""
    options.clock.check()
    train = fold.train
    ridge = options.alpha_value
    precision = CLASS_PRECISION if ridge is None or train.family == GAUSSIAN else ridge
    starts = _fold_starts(train, options, precision)
    return screen_starts(
        {name: starts[name] for name in names or starts},
        train,
        options.gate != "linear",
        SCREEN_STEPS,
        ridge,
    )


def em_in_more_directions(ems: list[Em], folds: list[Fold], options: Options) -> Track:
    """EM in these directions, from its solution in the first of them, one result per fold."""
    few = options._replace(em_steps=WIDENED_EM_STEPS)
    started = [_padded_model(em, folds[0].data) for em in ems]
    return _em_candidate(_em_on_folds(started, folds, few), folds, options)


def em_results(track: Track) -> list[Em]:
    """The results of EM, one per fold, of a track that has no other stage."""
    return [
        Em(model.tokens, model.values) for model in track.models if model.tokens is not None
    ]


def _padded_model(em: Em, data: Data) -> Em:
    """The same model in more directions, which are uncorrelated with these and do not enter it."""
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


def _em_on_folds(started: list[Em], folds: list[Fold], options: Options) -> list[Em]:
    def run(job: tuple[Em, Fold]) -> Em:
        options.clock.check()
        return _fit_em(job[0], job[1].train, options, FOLD_STOP_GAIN)

    return map_jobs(run, list(zip(started, folds)), options.workers)


def _em_candidate(ems: list[Em], folds: list[Fold], options: Options) -> Track:
    """The track of these results of EM. On all bags EM continues from the fold that did best."""
    family = folds[0].data.family
    models = [from_em(em, family) for em in ems]
    held = held_out(folds, models)
    best = ems[best_fold(folds, held)]

    def to_its_end(model: Fitted, bags: Data) -> Fitted:
        if not options.stop_without_token or bags.family != GAUSSIAN:
            return from_em(_fit_em(best, bags, options, EM_STOP_GAIN), bags.family)
        few = options._replace(em_steps=min(options.em_steps, FINAL_EM_STEPS))
        return from_em(_fit_em(best, bags, few, FOLD_STOP_GAIN), bags.family)

    return Track(models, held, (("em", to_its_end),))


def _fit_em(em: Em, data: Data, options: Options, tol: float) -> Em:
    quadratic = options.gate != "linear"
    ridge = options.alpha_value
    if data.size < OWN_COVARIANCE_BAGS_PER_FEATURE * data.tokens.shape[1]:
        return run_tied(em, data, quadratic, options.em_steps, ridge)
    return run_em(em, data, quadratic, options.em_steps, ridge, tol)


def _best_starts(
    folds: list[Fold],
    screen: Callable[..., dict],
    as_model: Callable[..., Fitted],
    options: Options,
    par: np.ndarray | None = None,
) -> tuple[dict[str, tuple[Track, list]], dict[str, float]]:
    """Run every start on a few folds, and the best ones that differ on all folds. Returns, by name,
    a track and the result of `screen` on each fold; and the loss of every start. No start goes on
    if none has losses clearly below `par` (n,) on the first folds.
    """
    first = folds[: probe_folds(folds)]
    probed = map_jobs(screen, first, options.workers)
    seen = {
        name: held_out(first, [as_model(made[name]) for made in probed]) for name in probed[0]
    }
    losses = {name: average_loss(folds, row, np.isfinite(row)) for name, row in seen.items()}
    if par is not None and not any(
        _is_clearly_below(row, par, folds) for row in seen.values()
    ):
        return {}, losses
    names: list[str] = []
    for name in sorted(losses, key=lambda name: losses[name]):
        data = folds[0].data
        lag = seen[name] - seen[names[0] if names else name]
        behind, error = gain_and_error(lag, data.weight, data.groups)
        known = any(_is_same_solution(seen[name], seen[other]) for other in names)
        if (
            len(names) < FINALIST_COUNT
            and not known
            and behind <= MAX_LAG_STANDARD_ERRORS * error
        ):
            names.append(name)
    made = probed + map_jobs(
        lambda fold: screen(fold, names), folds[len(first) :], options.workers
    )
    found = {}
    for name in names:
        parts = [part[name] for part in made]
        models = [as_model(part) for part in parts]
        found[name] = Track(models, held_out(folds, models), ()), parts
    return found, losses


def _is_clearly_below(losses: np.ndarray, par: np.ndarray, folds: list[Fold]) -> bool:
    """Are the losses lower by more standard errors than the best of eight useless starts gains (1.4)?"""
    gain, error = gain_and_error(par - losses, folds[0].data.weight)
    return gain > RIVAL_GAIN_STANDARD_ERRORS * error


def _is_same_solution(a: np.ndarray, b: np.ndarray) -> bool:
    """Did two candidates with these held-out losses find the same solution?"""
    return bool(np.nanmean(np.abs(a - b)) <= SAME_LOSS_SHARE * np.nanmean(b))


def _finalist_names(folds: list[Fold], found: dict[str, Track]) -> list[str]:
    """The best start, and the second one unless it is clearly worse or found the same solution."""
    first, *rest = sorted(found, key=lambda name: mean_loss(folds, found[name]))
    second = next(
        (
            name
            for name in rest
            if not _is_same_solution(found[name].losses, found[first].losses)
        ),
        None,
    )
    return (
        [first]
        if second is None or is_better(folds, found[first], found[second])
        else [first, second]
    )


def fresh_track(
    data: Data, folds: list[Fold], options: Options, par: np.ndarray | None = None
) -> Track | None:
    """L-BFGS from the starts, without EM: for tokens whose mixture the token model would explain by
    something other than y. None if no start has losses below `par` (n,) on the first folds.
    """
    precision = CLASS_PRECISION if options.alpha_value is None else options.alpha_value

    def screen(fold: Fold, names: list[str] | None = None) -> dict[str, Fitted]:
        options.clock.check()
        train = fold.train
        starts = _fold_starts(train, options, precision)
        models = {
            name: with_free_score(
                from_em(starts[name], data.family), train, options.gate != "linear"
            )
            for name in names or starts
        }
        return {
            name: refine(m, train, FRESH_GATE_RIDGE, m.values.precision, SCREEN_LBFGS_STEPS)
            for name, m in models.items()
        }

    found, _ = _best_starts(folds, screen, lambda model: model, options, par)
    if not found:
        return None
    best = min(
        (track for track, _ in found.values()), key=lambda track: mean_loss(folds, track)
    )
    chosen = best.models[best_fold(folds, best.losses)]
    return best._replace(stages=(("fresh start", lambda model, bags: chosen),))


def _fold_starts(train: Data, options: Options, precision: float) -> dict[str, Em]:
    """The starts of one fold, from its moments."""
    assert train.origin is not None
    moments = bag_moments(train)
    many = (options.n_starts, options.seed, options.dof)
    return make_starts(moments, train.family, train.origin, *many, precision)
