"""EM over batches of wide tokens and long bags: in the widest directions, with starts compared on a
sample of each bag's tokens.

After the passes that learn the scale and the moments (em_batches.py), one more pass reads the
tokens and keeps t = B^T x in float32: the k widest directions and the directions of the starts'
gates and values, all from the moments (subspace.py; components=None keeps whole tokens). The
projected tokens stay in memory if they fit in CACHE_BYTES; otherwise every later pass reads and
projects the tokens again. Sums are in float64.

Starts are compared on a sample of each bag's tokens (token_sample.py), which also yields three more
starts. Every start takes SCREEN_PASSES steps, and the best SAMPLE_FINALIST_COUNT take
FINALIST_EM_STEPS more. The start with the lowest loss continues on all tokens, with one EM step per
pass, until the likelihood converges.

notation: z = W^T (t - m), as in em.py; w_l = multiplicity of token l.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from attnscope.estimators.fit.data import Data, Scaling, label_log_density
from attnscope.estimators.fit.em import (
    EM_STOP_GAIN,
    NEGLIGIBLE_RESPONSIBILITY,
    Em,
    Sums,
    distances,
    m_step,
    scores,
)
from attnscope.estimators.fit.em_batches import (
    SCREEN_PASSES,
    Stream,
    class_step,
    class_sums,
)
from attnscope.estimators.fit.mixture import Fitted, from_em
from attnscope.estimators.fit.ridge import gram
from attnscope.estimators.fit.starts import CLASS_PRECISION, BagMoments, make_starts
from attnscope.estimators.fit.subspace import Subspace, lift_model, subspace_from_moments
from attnscope.estimators.fit.token_sample import (
    SAMPLE_TOKENS_PER_BAG,
    Block,
    FarthestTokens,
    Work,
    sample_block,
)
from attnscope.numerics.compiled.data_pass import GAUSSIAN, bag_softmax, bag_sum

__all__ = [
    "DEFAULT_DIRECTION_COUNT",
    "MIN_WIDE_FEATURES",
    "Batch",
    "Block",
    "fit_long_bags",
    "moments_in_directions",
    "project_batch",
    "working_directions",
]

MIN_WIDE_FEATURES = 128  # wider tokens are projected; for narrower ones a pass is cheap
DEFAULT_DIRECTION_COUNT = 64  # besides the directions of the starts
CACHE_BYTES = 512 * 2**20  # of projected tokens in memory: a quarter of a small machine's
MAX_SAMPLE_NUMBERS = 32_000_000  # numbers in the sample of all bags: 128 MB
SAMPLE_FINALIST_COUNT = 3  # starts that take more steps on the sample
FINALIST_EM_STEPS = 12  # steps that they take: with SCREEN, as many as a usual fit_batches takes on all tokens

Batch = tuple[
    np.ndarray, np.ndarray, np.ndarray, np.ndarray
]  # tokens, offsets, labels, weight


def fit_long_bags(
    stream: Stream,
    blocks_of: Callable[[Subspace | None], Iterable[Block]],
    lengths: np.ndarray,
    steps: int,
    components: int | None,
    say: Callable[[str], None],
) -> tuple[Fitted, dict[str, float], int | None]:
    """The model, the starts' losses on the sample and the number of directions (None: whole
    tokens).

    `stream` holds the scale and the moments; `blocks_of(space)` reads the batches again, each
    `project_batch`; lengths (n,) of all bags.
    """
    moments = stream.moments
    scaling = stream.scaling
    assert moments is not None and scaling is not None
    space = None
    origin = scaling.origin
    starts = stream.ems
    if components is not None and components < len(origin):
        space = working_directions(moments, starts, components)
        moments = moments_in_directions(moments, space)
        origin = origin @ space.basis
        starts = _starts_in_directions(stream, moments, origin)
    width = len(origin)
    work = Work(
        stream.family,
        stream.outputs,
        origin,
        _total_gram(moments),
        stream.quadratic,
        stream.ridge,
    )
    holds = int(lengths.sum()) * width * 4 <= CACHE_BYTES
    stride = -(
        -int(np.minimum(lengths, SAMPLE_TOKENS_PER_BAG).sum()) * width // MAX_SAMPLE_NUMBERS
    )
    sample, kept, far = [], [], FarthestTokens(work.outputs, width)
    bag = 0
    for block in blocks_of(space):
        sample.append(sample_block(block, starts, stream.seed, bag, stride))
        far.add(block, starts, work)
        if holds:
            kept.append(block)
        bag += len(block.labels)
    starts = starts | far.starts(starts)
    say(
        f"{len(starts)} starts on {sum(len(part.tokens) for part in sample)} tokens of {bag} bags"
    )
    em, losses = _best_start(starts, sample, work, say)
    del sample

    def blocks() -> Iterable[Block]:
        return kept if holds else blocks_of(space)

    last = -np.inf
    for step in range(steps):
        em, value, loss = _em_step(em, blocks(), work)
        say(f"EM step {step + 1} on all tokens: loss {loss / bag:.4g}")
        if abs(value - last) < EM_STOP_GAIN * bag:
            break
        last = value
    fitted = from_em(em, stream.family)
    if space is None:
        return fitted, losses, None
    return lift_model(fitted, space), losses, width


# -- working coordinates ---------------------------------------------------------------------------


def working_directions(moments: BagMoments, starts: dict[str, Em], k: int) -> Subspace:
    """The k widest directions, and the directions of the starts' gates (slopes W key) and values."""
    covariance = moments.xx / moments.tokens
    wide = subspace_from_moments(covariance, k)
    found = [wide.basis]
    for em in starts.values():
        found += [(em.tokens.whiten @ em.tokens.key)[:, None], em.values.weights]
    slopes = np.hstack(found[1:])
    size = np.linalg.norm(slopes, axis=0)
    slopes = slopes[:, size > 0] / size[size > 0]
    # the part outside the wide directions; twice, so that rounding leaves them orthogonal
    for _ in range(2):
        slopes = slopes - found[0] @ (found[0].T @ slopes)
    left, spread, _ = np.linalg.svd(slopes, full_matrices=False)
    basis = np.hstack(
        [found[0], left[:, spread > 1e-3]]
    )  # a start by a thousandth is no start
    # signs that do not depend on rounding: random starts are drawn in these coordinates
    basis *= np.sign(basis[np.argmax(np.abs(basis), axis=0), np.arange(basis.shape[1])])
    variance = np.einsum("ij,ij->j", basis, covariance @ basis)
    return Subspace(basis, basis, np.where(variance > 0, variance, 1.0)).scaled()


def moments_in_directions(moments: BagMoments, space: Subspace) -> BagMoments:
    """The moments of t = B^T x."""
    b = space.basis
    one = np.zeros((1 + len(b), 1 + b.shape[1]))
    one[0, 0] = 1.0
    one[1:, 1:] = b
    return BagMoments(
        moments.bags,
        moments.tokens,
        moments.x @ b,
        b.T @ moments.xx @ b,
        one.T @ moments.ss @ one,
        moments.ys @ b,
        one.T @ moments.yxx @ one,
    )


def _starts_in_directions(
    stream: Stream, moments: BagMoments, origin: np.ndarray
) -> dict[str, Em]:
    ridge = stream.ridge
    precision = CLASS_PRECISION if ridge is None or stream.family == GAUSSIAN else ridge
    many = (stream.n_starts, stream.seed, stream.dof)
    return make_starts(moments, stream.family, origin, *many, precision)


def _total_gram(moments: BagMoments) -> np.ndarray:
    """sum over all tokens of weight (1, t)(1, t)^T."""
    d = len(moments.x)
    out = np.empty((1 + d, 1 + d))
    out[0, 0] = moments.tokens
    out[0, 1:] = moments.x
    out[1:, 0] = moments.x
    out[1:, 1:] = moments.xx
    return out


def project_batch(batch: Batch, scaling: Scaling, space: Subspace | None) -> Block:
    """A batch in the working coordinates; its labels are numbers or class indices."""
    tokens, offsets, y, weight = batch
    x = scaling.tokens(tokens)
    t = x if space is None else x @ space.basis
    labels = (y - scaling.label_mean) / scaling.label_scale
    return Block(t.astype(np.float32), offsets, labels, weight, np.zeros(1))


# -- steps -----------------------------------------------------------------------------------------


def _best_start(
    starts: dict[str, Em], sample: list[Block], work: Work, say: Callable[[str], None]
) -> tuple[Em, dict[str, float]]:
    """The start of lowest loss after the steps on the sample, and every start's loss."""
    bags = sum(len(block.labels) for block in sample)
    ems, losses = {}, {}
    for name, em in starts.items():
        ems[name], losses[name] = _run_steps(em, sample, work, SCREEN_PASSES)
    for name in sorted(losses, key=lambda name: losses[name])[:SAMPLE_FINALIST_COUNT]:
        ems[name], losses[name] = _run_steps(ems[name], sample, work, FINALIST_EM_STEPS)
        say(f"start {name}: loss {losses[name] / bags:.4g} on the sample")
    best = min(losses, key=lambda name: losses[name])
    return ems[best], {name: loss / bags for name, loss in losses.items()}


def _run_steps(em: Em, blocks: list[Block], work: Work, steps: int) -> tuple[Em, float]:
    loss = np.inf
    for _ in range(steps):
        em, _, loss = _em_step(em, blocks, work)
    return em, loss


def _em_step(em: Em, blocks: Iterable[Block], work: Work) -> tuple[Em, float, float]:
    """One EM step: new parameters, log likelihood and loss of the old ones."""
    size = 2 + len(em.tokens.mean)
    label = np.zeros((size, size))
    key = np.zeros((size - 1, size - 1))
    other = np.zeros((size - 1, size - 1))
    classes: np.ndarray | float = 0.0
    bags = np.zeros(4)
    for block in blocks:
        if len(block.labels) == 0:
            continue
        data = work.data(block)
        r, facts = _weighted_responsibilities(em, data, block.log_share)
        bags += facts
        rw = r * data.per_token(data.weight)
        kept = rw > NEGLIGIBLE_RESPONSIBILITY
        x = data.tokens[kept]
        y = data.per_token(data.labels)[kept]
        near = np.ones(1)
        if np.isfinite(em.tokens.dof):
            near_all, far = _t_weights(em, data)
            near = near_all[kept]
            mass = np.exp(block.log_share) * data.per_token(data.weight) - rw
            other += gram(data.tokens, mass * far)
        if work.family == GAUSSIAN:
            label += gram(np.column_stack([x, y]), rw[kept])
        else:
            ends = np.arange(len(y) + 1)
            alone = Data(x, ends, y, np.ones(len(y)), work.family, work.outputs)
            classes = classes + class_sums(em.values, alone, rw[kept])
        if work.family != GAUSSIAN or near.size > 1:
            key += gram(x, rw[kept] * near)
    if work.family == GAUSSIAN and np.isinf(em.tokens.dof):
        key = label[:-1, :-1]
    if np.isinf(em.tokens.dof):
        # scaled to the bags in the sample, which may not have all of them
        other = work.everything * (bags[1] / work.everything[0, 0]) - key
    sums = Sums(other, key, label, bags)
    new = m_step(em, sums, work.quadratic, work.family, work.ridge, work.origin)
    if work.family != GAUSSIAN:
        new = new._replace(values=class_step(em.values, np.asarray(classes)))
    return new, float(bags[2]), float(bags[3])


def _weighted_responsibilities(
    em: Em, data: Data, log_share: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """r (N,), and the numbers of `Sums.bags`: weight of bags and of tokens, log likelihood, and the
    loss (squared error of the prediction, or minus the log probability of the classes).
    """
    u = scores(em.tokens, data.tokens) + log_share
    w = data.tokens @ em.values.weights + em.values.bias
    density = label_log_density(
        data.per_token(data.labels), w, data.family, em.values.variance
    )
    if data.family == GAUSSIAN:
        density -= 0.5 * np.log(em.values.variance)
    joint = u + density
    r = bag_softmax(joint, data.offsets)
    first = data.offsets[:-1]
    evidence = np.logaddexp.reduceat(joint, first)
    counts = np.add.reduceat(np.exp(log_share) * np.ones(len(u)), first)
    p = bag_softmax(u, data.offsets)
    if data.family == GAUSSIAN:
        error = (data.labels - bag_sum(p * w[:, 0], data.offsets)) ** 2
    else:
        error = -np.log(np.maximum(bag_sum(p * np.exp(density), data.offsets), 1e-300))
    facts = (np.ones(data.size), counts, evidence - np.log(counts), error)
    return r, np.array([data.weight @ fact for fact in facts])


def _t_weights(em: Em, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a multivariate t: of a deciding and of a background token."""
    near, far = distances(em.tokens, data.tokens)
    d = data.tokens.shape[1]
    nu = em.tokens.dof
    return (nu + d) / (nu + near / em.tokens.spread), (nu + d) / (nu + far)
