"""What a training run did, in sentences with numbers, one group of runs (by outcome) after the
other.

notation: u = X.k, s = signal, gam = gamma, L = length, alpha = step size, lam = the last
inverse temperature.

Signatures and their tests, at the group's typical run (that of median excess risk):
    attention misses the position   P(u_J is the largest score) = E Phi(s kappa + gam G)^(L-1) <
        MISS_PROBABILITY   (exact)
    attention does not concentrate   mean share of |weight| on J below DIFFUSE_SHARE although u_J is the
        largest   (20,000 sequences)
    value direction not learned        |nu| < .9
    roles swapped                      outcome "swapped"
    saddle, flat region   at this gradient, moving k or v by 0.1 takes longer than HELD_SHARE_OF_RUN of the
        whole run, and the Hessian
                                       has a negative eigenvalue, or none
    lambda above critical              lam > critical_inverse_temperature(task), for Erf
    step size unstable   alpha times the largest Hessian eigenvalue > 2, or the risk rises: between
        logs
                                       (constant lambda) or in EXTRA_STEPS more steps
The Hessian needs key and value orthogonal; elsewhere these sentences are left out.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from attnscope.dynamics.engines.engine_table import engine_for
from attnscope.dynamics.overlap_runs import (
    ALIGNED_COSINE,
    OverlapRuns,
    at_inverse_temperature,
    exact_excess,
    swapped_theta,
)
from attnscope.predictors.attention import Predictor
from attnscope.tasks.base import has_classes
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.landscape import LocalGeometry, known_landscape, local_geometry
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.route import find_route

__all__ = ["attention_share", "diagnose", "location_accuracy"]

# probability of the largest score on the true position below which attention misses it
MISS_PROBABILITY = 0.9
DIFFUSE_SHARE = 0.25  # mean share of the weight below which attention is spread out
HELD_SHARE_OF_RUN = 0.2  # share of the run's steps that count as being held
# relative size from which on an eigenvalue counts as negative: the run need not be at the point
# itself
NEGATIVE_EIGENVALUE_SHARE = 1e-6
SHARE_SEQUENCES = 20_000  # sequences behind a share: two digits
# extra steps that look for a rise of the risk: with a stable step size it only falls
EXTRA_STEPS = 20
RISE_SHARE = 1e-6  # relative size of a rise that is not rounding


def diagnose(run: OverlapRuns) -> list[str]:
    """See Trajectory.diagnose."""
    out: list[str] = []
    known = known_landscape(run.setup.task)
    for name in ("oracle", "swapped", "undecided", "diverged"):
        group = np.flatnonzero(run.outcome == name)
        if len(group):
            out += (
                SENTENCES_BY_OUTCOME[name](run, group)
                if known or name == "diverged"
                else [_numbers_only(run, group, name)]
            )
    return out + _inverse_temperature_sentences(run) if known else out


def _numbers_only(run: OverlapRuns, group: np.ndarray, name: str) -> str:
    """For tasks without a known landscape: where the runs are, without an explanation."""
    words = ", ".join(
        f"|{field}| {x:.3f}" for field, x in _median_overlaps(run, group)._asdict().items()
    )
    value = "error" if has_classes(run.setup.task) else "excess"
    return f"{_count_sentence(run, group)} {name}: {words}, {value} {_median_excess(run, group):.4g}."


# -- groups ----------------------------------------------------------------------------------------


def _oracle_sentences(run: OverlapRuns, group: np.ndarray) -> list[str]:
    o = _median_overlaps(run, group)
    head = (
        f"{_count_sentence(run, group)} at the oracle: |kappa| {o.kappa:.3f}, |nu| {o.nu:.3f}, excess "
        f"risk {_median_excess(run, group):.4g}."
    )
    return [head, *_attention_sentences(run, group), *_stability_sentences(run, group)]


def _swapped_sentences(run: OverlapRuns, group: np.ndarray) -> list[str]:
    o = _median_overlaps(run, group)
    lam = float(run.inverse_temperature[-1])
    theta = swapped_theta(run.setup.task, run.setup.predictor, lam)
    head = (
        f"{_count_sentence(run, group)} with the roles swapped: k points along v* (|eta| {o.eta:.3f}) and v "
        "along k* "
        f"(|theta| {o.theta:.3f}, predicted {theta:.3f}), excess risk {_median_excess(run, group):.4g}; "
        'train with swap_move=True or start="moments" to avoid it.'
    )
    return [head, *_attention_sentences(run, group), *_stability_sentences(run, group)]


def _undecided_sentences(run: OverlapRuns, group: np.ndarray) -> list[str]:
    o = _median_overlaps(run, group)
    null = run.setup.task.gamma**2
    words = ", ".join(f"|{name}| {x:.3f}" for name, x in o._asdict().items())
    risk = _median_excess(run, group)
    verdict = "worse" if risk > null else "better"
    out = [
        f"{_count_sentence(run, group)} undecided: {words}, excess risk {risk:.4g}, {verdict} than "
        f"{null:.4g} of predicting the mean."
    ]
    out += _attention_sentences(run, group)
    if o.nu < ALIGNED_COSINE:
        out.append(f"The value direction is not learned: |nu| {o.nu:.3f}.")
    return out + (_stability_sentences(run, group) or _slow_sentences(run, group))


def _diverged_sentences(run: OverlapRuns, group: np.ndarray) -> list[str]:
    first = int(run.diverged_at[group].min())
    last = int(run.diverged_at[group].max())
    when = f"at step {first}" if first == last else f"between steps {first} and {last}"
    return [
        f"{_count_sentence(run, group)} diverged, {when}: the step size {run.setup.step_size:g} is "
        "unstable; try a smaller one."
    ]


SENTENCES_BY_OUTCOME = {
    "oracle": _oracle_sentences,
    "swapped": _swapped_sentences,
    "undecided": _undecided_sentences,
    "diverged": _diverged_sentences,
}


# -- signatures ------------------------------------------------------------------------------------


def _attention_sentences(run: OverlapRuns, group: np.ndarray) -> list[str]:
    task = run.setup.task
    predictor = _last_predictor(run)
    o = _typical_overlaps(run, group)
    accuracy = location_accuracy(task, predictor, o.kappa)
    share = attention_share(task, predictor, o.kappa)
    numbers = (
        f"its score is the largest in {accuracy:.1%} of sequences (by chance "
        f"{1 / task.length:.1%})"
    )
    if accuracy < MISS_PROBABILITY:
        head = "Attention does not concentrate on the true position"
    elif share < DIFFUSE_SHARE:
        head = "Attention finds the true position but is spread over the others"
    else:
        head = "Attention concentrates on the true position"
    return [
        f"{head}: |kappa| {abs(o.kappa):.3f}, {numbers}, and it carries {share:.1%} of the weight."
    ]


def _slow_sentences(run: OverlapRuns, group: np.ndarray) -> list[str]:
    local = _local_geometry(run, group)
    if local is None:
        return []
    alpha = run.setup.step_size
    lowest = local.eigenvalues[0]
    highest = local.eigenvalues[-1]
    needed = 0.1 / (alpha * max(local.gradient, 1e-300))
    if needed < HELD_SHARE_OF_RUN * run.step[-1]:
        return [f"The runs still move: gradient norm {local.gradient:.2g}; extend them."]
    if lowest < -NEGATIVE_EIGENVALUE_SHARE * abs(highest):
        away = f"growing e-fold every {1 / (alpha * -lowest):.3g} steps"
        return [
            f"A saddle holds the runs: gradient norm {local.gradient:.2g}, but a direction of "
            f"curvature {lowest:.2g} leads down, {away}."
        ]
    slow = f"moving k or v by 0.1 takes {needed:.2g} steps of size {alpha:g}"
    return [
        f"A flat region holds the runs: gradient norm {local.gradient:.2g}, no descending "
        f"direction, {slow}."
    ]


def _stability_sentences(run: OverlapRuns, group: np.ndarray) -> list[str]:
    local = _local_geometry(run, group)
    alpha = run.setup.step_size
    if local is not None and alpha * local.eigenvalues[-1] > 2:
        top = local.eigenvalues[-1]
        ratio = f"{alpha:g} times the largest Hessian eigenvalue {top:.4g} is {alpha * top:.2f} > 2"
        return [f"The step size is unstable: {ratio}; try step_size={1 / top:.2g}."]
    rises = _risk_rises(run, group)
    if len(rises):
        seen = (
            f"the risk of a typical run rises {len(rises)} times, by up to {rises.max():.2g}"
        )
        return [f"The step size is unstable: {seen}; try step_size={alpha / 4:.2g}."]
    return []


def _inverse_temperature_sentences(run: OverlapRuns) -> list[str]:
    task = run.setup.task
    lam = float(run.inverse_temperature[-1])
    row = find_route(task, run.setup.predictor)
    if row is None or row.critical is None:
        return []
    if task.alignment != 0 or (run.outcome == "oracle").all():
        return []
    critical = row.critical(task)
    if lam <= critical:
        return []
    return [
        f"The inverse temperature {lam:.4g} is above the critical one, {critical:.4g}: the oracle "
        "is a saddle there, so no run can stay at it."
    ]


def _risk_rises(run: OverlapRuns, group: np.ndarray) -> np.ndarray:
    """By how much the typical run's risk rose where it should fall:
    in the second half of the log, and in EXTRA_STEPS more steps.
    """
    if run.setup.batch_size is not None:
        return np.zeros(0)  # the noise of SGD makes it rise by itself
    i = _typical_run(run, group)
    logged = (
        run.excess[i, len(run.step) // 2 :]
        if np.ptp(run.inverse_temperature) == 0
        else np.zeros(0)
    )
    changes = np.concatenate([np.diff(logged), np.diff(_continued_excess(run, i))])
    return changes[changes > RISE_SHARE * run.excess[i, -1]]


def _continued_excess(run: OverlapRuns, i: int) -> np.ndarray:
    """Excess risk of run i over EXTRA_STEPS more steps at its last inverse temperature."""
    setup = run.setup
    lam = np.full(EXTRA_STEPS + 1, run.inverse_temperature[-1])
    seen = [run.log[:, i, -1]]
    engine = engine_for(setup)
    state = engine.init(seen[0][:, None], setup.seed)
    for t in range(EXTRA_STEPS):
        state = engine.advance(state, lam[t : t + 1])
        seen.append(engine.overlaps(state)[:, 0])
    return exact_excess(
        setup.task, setup.predictor, np.clip(np.array(seen).T[:, None, :], -1, 1), lam
    )[0]


# -- numbers ---------------------------------------------------------------------------------------


def location_accuracy(task: SingleLocation, predictor: Predictor, kappa: float) -> float:
    """P(the informative token has the largest score): E Phi(s kappa + gam G)^(L-1), by the
    trapezoidal rule on [-9, 9].

    For odd sigma the scores count with the sign of kappa: (k, v) and (-k, -v) are the same
    predictor.
    """
    kappa = abs(kappa) if predictor.odd else kappa
    g = np.linspace(-9, 9, 2001)
    weight = np.exp(-g * g / 2)
    return float(
        np.sum(weight * ndtr(task.signal * kappa + task.gamma * g) ** (task.length - 1))
        / weight.sum()
    )


def attention_share(
    task: SingleLocation, predictor: Predictor, kappa: float, seed: int = 0
) -> float:
    """Mean share of |weight| on the informative token,
    from SHARE_SEQUENCES sequences of scores (fewer if they are very long).
    """
    n = max(100, min(SHARE_SEQUENCES, 4_000_000 // task.length))
    scores = np.random.default_rng(seed).standard_normal((n, task.length))
    scores[:, 0] = task.signal * kappa + task.gamma * scores[:, 0]
    weights = np.abs(predictor.weights(predictor.inverse_temperature * scores))  # type: ignore[operator]
    total = weights.sum(axis=1)
    return float(
        np.mean(np.where(total > 0, weights[:, 0] / np.where(total > 0, total, 1.0), 0.0))
    )


def _local_geometry(run: OverlapRuns, group: np.ndarray) -> LocalGeometry | None:
    if run.setup.task.alignment != 0:
        return None
    return local_geometry(run.setup.task, _last_predictor(run), _typical_overlaps(run, group))


def _last_predictor(run: OverlapRuns) -> Predictor:
    """The predictor at the last inverse temperature."""
    return at_inverse_temperature(run.setup.predictor, float(run.inverse_temperature[-1]))


def _typical_run(run: OverlapRuns, group: np.ndarray) -> int:
    """The run of the group whose last excess risk is the (lower) median."""
    return int(group[np.argsort(run.excess[group, -1], kind="stable")[(len(group) - 1) // 2]])


def _typical_overlaps(run: OverlapRuns, group: np.ndarray) -> Overlaps:
    return Overlaps(*(float(x) for x in run.log[:, _typical_run(run, group), -1]))


def _median_overlaps(run: OverlapRuns, group: np.ndarray) -> Overlaps:
    return Overlaps(*(float(x) for x in np.median(np.abs(run.log[:, group, -1]), axis=1)))


def _median_excess(run: OverlapRuns, group: np.ndarray) -> float:
    return float(np.median(run.excess[group, -1]))


def _count_sentence(run: OverlapRuns, group: np.ndarray) -> str:
    return f"{len(group)} of {run.runs} runs {'ends' if len(group) == 1 else 'end'}"
