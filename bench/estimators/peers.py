"""Peers of the estimators: gated attention MIL in JAX/optax, and mean-pool ridge or logistic regression.

Gated attention (Ilse, Tomczak, Welling 2018):  a_l ~ exp(w.(tanh(V h_l) * sigmoid(U h_l))),  output = c.(sum_l a_l h_l) + c0,
with h_l = A x_l + b or its relu.
Trained by Adam with weight decay on 80 % of the bags, early stopping on the rest (patience in epochs, best weights kept), no time cap.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

HIDDEN, GATE = 64, 32  # widths; larger ones overfit at n = 500, d = 50
BATCH, PATIENCE, EPOCHS = 32, 60, 1500
RATES, DECAYS = (3e-3, 1e-3), (1e-3, 1e-1)  # the best on the held-out fifth is taken


def padded(bags):
    """List or array of bags as tokens (n, L, d) and mask (n, L)."""
    length = max(len(b) for b in bags)
    tokens, mask = np.zeros((len(bags), length, bags[0].shape[1]), np.float32), np.zeros((len(bags), length), bool)
    for i, b in enumerate(bags):
        tokens[i, : len(b)], mask[i, : len(b)] = b, True
    return tokens, mask


def output(p, tokens, mask, bent):
    h = tokens @ p["a"] + p["b"]
    h = jax.nn.relu(h) if bent else h
    score = (jnp.tanh(h @ p["v"]) * jax.nn.sigmoid(h @ p["u"])) @ p["w"]
    weight = jax.nn.softmax(jnp.where(mask, score, -1e9), axis=1)
    return jnp.einsum("nl,nlh,h->n", weight, h, p["c"]) + p["c0"]


def start(key, d):
    keys = jax.random.split(key, 5)
    draw = lambda k, shape: jax.random.normal(k, shape) / np.sqrt(shape[0])
    return {
        "a": draw(keys[0], (d, HIDDEN)) * np.sqrt(2), "b": jnp.zeros(HIDDEN), "v": draw(keys[1], (HIDDEN, GATE)),
        "u": draw(keys[2], (HIDDEN, GATE)), "w": draw(keys[3], (GATE,)), "c": draw(keys[4], (HIDDEN,)), "c0": jnp.zeros(()),
    }  # fmt: skip


class GatedAttention:
    """fit(bags, y), predict(bags); `classes=True` for labels 0/1, whose predict is the logit."""

    def __init__(self, seed=0, classes=False):
        self.seed, self.classes = seed, classes

    def fit(self, bags, y):
        tokens, mask = padded(bags)
        flat = tokens[mask]
        self.mean, self.scale = flat.mean(0), np.maximum(flat.std(0), 1e-6)
        self.shift, self.unit = (0.0, 1.0) if self.classes else (np.mean(y), np.std(y))
        tokens, y = self._standard(tokens, mask), ((np.asarray(y, float) - self.shift) / self.unit).astype(np.float32)
        order = np.random.default_rng(self.seed).permutation(len(y))
        held, rest = order[: len(y) // 5], order[len(y) // 5 :]
        tries = itertools.product(RATES, DECAYS, (True, False))
        found = [(*self._train(tokens, mask, y, rest, held, *t), t[2]) for t in tries]
        _, self.params, self.bent = min(found, key=lambda f: f[0])
        return self

    def _standard(self, tokens, mask):
        return np.where(mask[..., None], (tokens - self.mean) / self.scale, 0).astype(np.float32)

    def _train(self, tokens, mask, y, rest, held, rate, decay, bent):
        def loss(p, x, m, t):
            z = output(p, x, m, bent)
            return jnp.mean(optax.sigmoid_binary_cross_entropy(z, t) if self.classes else (z - t) ** 2)

        optimiser = optax.adamw(rate, weight_decay=decay)
        batches = max(1, len(rest) // BATCH)
        X, M, T = jnp.array(tokens), jnp.array(mask), jnp.array(y)

        @jax.jit
        def epoch(p, s, order):
            def step(carry, rows):
                p, s = carry
                g = jax.grad(loss)(p, X[rows], M[rows], T[rows])
                change, s = optimiser.update(g, s, p)
                return (optax.apply_updates(p, change), s), None

            (p, s), _ = jax.lax.scan(step, (p, s), order)
            return p, s, loss(p, X[held], M[held], T[held])

        rng = np.random.default_rng([self.seed, 1])
        p = start(jax.random.PRNGKey(self.seed), tokens.shape[2])
        s, best, kept, waited = optimiser.init(p), np.inf, p, 0
        for _ in range(EPOCHS):
            order = rng.permutation(rest)[: batches * min(BATCH, len(rest))].reshape(batches, -1)
            p, s, value = epoch(p, s, order)
            if float(value) < best:
                best, kept, waited = float(value), p, 0
            else:
                waited += 1
            if waited == PATIENCE:
                break
        return best, kept

    def predict(self, bags):
        tokens, mask = padded(bags)
        return (
            np.asarray(output(self.params, self._standard(tokens, mask), mask, self.bent), float) * self.unit
            + self.shift
        )


class MeanPool:
    """Ridge (or logistic regression) on the mean token."""

    def __init__(self, seed=0, classes=False):
        self.classes = classes

    def fit(self, bags, y):
        x = np.array([np.mean(b, axis=0) for b in bags])
        self.mean, self.scale = x.mean(0), np.maximum(x.std(0), 1e-9)
        if self.classes:
            self.model = LogisticRegressionCV(
                Cs=7, l1_ratios=(0,), use_legacy_attributes=False, scoring="neg_log_loss", max_iter=2000
            )
        else:
            self.model = RidgeCV(np.logspace(-2, 4, 13))
        self.model.fit((x - self.mean) / self.scale, y)
        return self

    def predict(self, bags):
        x = (np.array([np.mean(b, axis=0) for b in bags]) - self.mean) / self.scale
        return self.model.decision_function(x) if self.classes else self.model.predict(x)
