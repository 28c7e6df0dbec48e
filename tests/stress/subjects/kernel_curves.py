"""Learning curves of any kernel, their spectra, a shared layer, and the dimension of tokens.

Promises without a stated error (docs/accuracy.md): spectra 1e-13. `kernel_bayes_curve` states the
error of the deterministic equivalent's equation, not its distance from a process.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import kernel_curves as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

SPECTRUM = 1e-13  # a hundred roundings
MOST = 200  # eigenvalues that a reference sums in 60 digits


# -- the curve -------------------------------------------------------------------------------------


def _draw_curve(rng: np.random.Generator) -> Setting:
    number = log_integer(rng, 1, MOST, [1, 2])
    decay = log_uniform(rng, 0.1, 8, [0.0])
    mu = log_uniform(rng, 1e-6, 1e6, [1.0]) * np.arange(1.0, number + 1) ** -decay
    return {
        "eigenvalues": mu.tolist(),
        "multiplicities": np.floor(10 ** rng.uniform(0, 3, number)).tolist(),
        "noise": log_uniform(rng, 1e-6, 1e6, [0.5]),
        "length": log_integer(rng, 1, 10**9, [1, 2, number]),
        "listed": log_integer(rng, 1, number, [number]),
    }


def _curve(s: Setting, length: int) -> at.Estimate:
    """The rest of the spectrum beyond `listed` enters by its trace."""
    mu = np.array(s["eigenvalues"])
    N = np.array(s["multiplicities"])
    k = s["listed"]
    trace = float(np.sum(mu * N)) if k < len(mu) else None
    return at.kernel_bayes_curve(mu[:k], N[:k], s["noise"], length, trace)


def _call_curve(s: Setting) -> Answer:
    e = _curve(s, s["length"])
    return Answer(e.excess, e.error)


def _true_curve(s: Setting) -> Truth:
    where = (s["eigenvalues"], s["multiplicities"], s["noise"], s["length"])
    return Truth(reference.curve(*where))


def _curve_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    later = _curve(s, 2 * s["length"])
    yield at_most("more tokens never hurt", later.excess, a.value, later.error + a.error)
    mu = np.array(s["eigenvalues"])
    share = mu * np.array(s["multiplicities"])
    total = float(share.sum())
    yield at_most("at most the trace", a.value, total, a.error + 1e-13 * total)
    ridge = s["noise"] ** 2 / s["length"]
    least = float(np.sum(share * ridge / (ridge + mu)))
    yield at_most("Jensen's bound from below", least, a.value, a.error + 1e-13 * least)
    both = _curve(s, [s["length"], 2 * s["length"]])  # type: ignore[arg-type]
    yield same("as one of a curve, to the bit", both.excess, [a.value, later.excess], 0.0)


# -- spectra ---------------------------------------------------------------------------------------


def _draw_product(rng: np.random.Generator) -> Setting:
    d = int(rng.integers(1, 4))
    return {
        "smoothness": np.exp(rng.uniform(-0.3, 1.5, d)).tolist(),
        "weights": [log_uniform(rng, 1e-3, 1.0, [1.0]) for _ in range(d)],
        "cut": log_uniform(rng, 0.01, 1.0, [0.5]),
    }


def _call_product(s: Setting) -> Answer:
    found = at.product_spectrum(s["smoothness"], s["weights"], s["cut"])
    total = float(np.sum(found.eigenvalues * found.multiplicities))
    value = [float(found.multiplicities.sum()), total, found.trace]
    return Answer(value, [0.0, SPECTRUM * total, SPECTRUM * found.trace])


def _true_product(s: Setting) -> Truth:
    return Truth(list(reference.korobov(s["smoothness"], s["weights"], s["cut"])))


def _draw_sphere(rng: np.random.Generator) -> Setting:
    return {
        "dimension": log_integer(rng, 1, 64, [1, 2]),
        "smoothness": log_uniform(rng, 0.05, 20, [1.0]),
        "top": log_integer(rng, 1, 60, [0, 1]),
    }


def _call_sphere(s: Setting) -> Answer:
    found = at.sphere_spectrum(s["dimension"], s["smoothness"], s["top"])
    value = np.concatenate([found.eigenvalues, found.multiplicities])
    return Answer(value, SPECTRUM * value)


def _true_sphere(s: Setting) -> Truth:
    mu, N = reference.sphere(s["dimension"], s["smoothness"], s["top"])
    return Truth([*mu, *N])


# -- a shared layer --------------------------------------------------------------------------------


def _draw_layer(rng: np.random.Generator) -> Setting:
    shared = bool(rng.random() < 0.5)
    positions = log_integer(rng, 1, 10**6, [1, 2, 3])
    least = 3 if shared else positions + 2
    sequences = least + log_integer(rng, 1, 2000, [1, 2]) - 1
    return {
        "positions": positions,
        "sequences": sequences,
        "noise": log_uniform(rng, 1e-6, 1e6, [0.0, 0.5]),
        "shared": shared,
    }


def _call_layer(s: Setting) -> Answer:
    e = at.shared_layer_risk(**s)
    return Answer(e.excess, e.error)


def _true_layer(s: Setting) -> Truth:
    value = reference.layer(**s)
    return Truth(value, 1e-13 * value)


# -- the dimension of tokens -----------------------------------------------------------------------


def _draw_tokens(rng: np.random.Generator) -> Setting:
    m = log_integer(rng, 1, 10, [1, 2])
    return {
        "shape": choice(rng, ["sphere", "normal", "cube", "torus"]),
        "dimension": m,
        "ambient": 2 * m + log_integer(rng, 1, 40, [1]),
        "tokens": log_integer(rng, 20, 800, [20]),
        "scale": log_uniform(rng, 1e-30, 1e30, [1.0]),
        "away": log_uniform(rng, 1e-3, 1e3, [0.0]),
        "seed": int(rng.integers(2**31)),
    }


def _tokens(s: Setting) -> np.ndarray:
    """Points of a set of that dimension, turned into R^D and moved away from 0."""
    rng = np.random.default_rng(s["seed"])
    n = s["tokens"]
    m = s["dimension"]
    if s["shape"] == "sphere":
        x = rng.standard_normal((n, m + 1))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    elif s["shape"] == "normal":
        x = rng.standard_normal((n, m))
    elif s["shape"] == "cube":
        x = rng.random((n, m))
    else:
        turn = 2 * np.pi * rng.random((n, m))
        x = np.concatenate([np.cos(turn), np.sin(turn)], axis=1)
    frame = np.linalg.qr(rng.standard_normal((s["ambient"], x.shape[1])))[0]
    return s["scale"] * (x @ frame.T + s["away"])


def _call_tokens(s: Setting) -> Answer:
    e = at.intrinsic_dimension(_tokens(s))
    return Answer(e.value, e.error, sampled=True)


def _true_tokens(s: Setting) -> Truth:
    return Truth(float(s["dimension"]))


def _token_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    x = _tokens(s)
    found = at.intrinsic_dimension(x[::-1].reshape(1, *x.shape))
    yield same("tokens in another order, to the bit", found.value, a.value, 0.0)
    twice = at.intrinsic_dimension(np.concatenate([x, x[:5]]))
    yield same("equal tokens count once, to the bit", twice.value, a.value, 0.0)
    larger = at.intrinsic_dimension(4 * x)
    yield same("four times as large, to the bit", larger.value, a.value, 0.0)


SUBJECTS: list[Subject] = [
    Subject(
        "kernel_bayes_curve",
        ("kernel_bayes_curve",),
        _draw_curve,
        _call_curve,
        _true_curve,
        _curve_relations,
    ),
    Subject(
        "product_spectrum",
        ("product_spectrum",),
        _draw_product,
        _call_product,
        _true_product,
        weight=0.3,
    ),
    Subject(
        "sphere_spectrum",
        ("sphere_spectrum",),
        _draw_sphere,
        _call_sphere,
        _true_sphere,
        weight=0.3,
    ),
    Subject(
        "shared_layer_risk",
        ("shared_layer_risk",),
        _draw_layer,
        _call_layer,
        _true_layer,
        weight=0.3,
    ),
    Subject(
        "intrinsic_dimension",
        ("intrinsic_dimension",),
        _draw_tokens,
        _call_tokens,
        _true_tokens,
        _token_relations,
        weight=0.5,
    ),
]
