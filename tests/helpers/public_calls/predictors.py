"""Calls of predictors, blocks and attention operators."""

import numpy as np

import attnscope as at
from helpers.public_calls.examples import (
    BLOCK,
    KEY,
    KEYS,
    LAYER,
    LOCATION,
    MASK,
    MODELS,
    QUERY,
    TOKENS,
    VALUE,
    VALUES,
    add,
)


def squared(action, outcome):
    return (action[:, None] - outcome) ** 2


SCORES = {"scores": TOKENS[:, :, 0], "mask": MASK}
for kind in ("Erf", "Softmax", "SoftmaxOne", "SoftplusAttention", "LinearAttention"):
    add(kind, getattr(at, kind), inverse_temperature=0.5)
    head = getattr(at, kind)(0.5)
    add(f"{kind}.weights", head.weights, **SCORES)
    if hasattr(head, "activation"):
        add(f"{kind}.activation", head.activation, x=np.array([0.5, -1.0]))
add("LinearAttention", at.LinearAttention, inverse_temperature=0.5, offset=0.1)
add(
    "Componentwise",
    at.Componentwise,
    sigma=np.tanh,
    inverse_temperature=0.5,
    kinks=(0.0,),
    scale=1.0,
)
add("Componentwise.weights", at.Componentwise(np.tanh, 0.5).weights, **SCORES)
add(
    "Componentwise.activation",
    at.Componentwise(np.tanh, 0.5).activation,
    x=np.array([0.5, -1.0]),
)
add("OptimalSigma", at.OptimalSigma, gamma=0.7, signal=2.0, length=4)
add("OptimalSigma.weights", at.OptimalSigma(0.7, 2.0, 4).weights, **SCORES)
add(
    "OptimalSigma.activation",
    at.OptimalSigma(0.7, 2.0, 4).activation,
    x=np.array([0.5, -1.0]),
)
add("BayesSoftmax", at.BayesSoftmax, inverse_temperature=1.0, bias=(0.0, 0.3), curvature=0.1)
add("MultiHead", at.MultiHead, head=at.Softmax(0.5), heads=2)
HEADS = {"BayesSoftmax": at.BayesSoftmax(1.0), "MultiHead": at.MultiHead(at.Softmax(0.5), 2)}
TWO_KEYS, TWO_VALUES = np.eye(6)[:2], np.eye(6)[2:4]
for word, heads in HEADS.items():
    add(f"{word}.attention", heads.attention, K=TWO_KEYS, tokens=TOKENS, mask=MASK)
    add(f"{word}.output", heads.output, K=TWO_KEYS, V=TWO_VALUES, tokens=TOKENS, mask=MASK)
add("RowColumn", at.RowColumn, step=at.Softmax(1.0), rows=2, columns=2)
add("RowColumn.weights", at.RowColumn(at.Softmax(1.0), 2, 2).weights, scores=TOKENS[:, :, 0])
add("InverseTime", at.InverseTime, start=1.0, rate=1e-4)
add("InverseTime.__call__", at.InverseTime(1.0, 1e-4), step=10)
add(
    "FullAttention",
    at.FullAttention,
    Q=np.eye(6),
    K=np.eye(6),
    V=np.eye(6),
    O=np.ones((1, 6)),
    inverse_temperature=0.5,
)
add("FullAttention.rows", LAYER.rows, tokens=TOKENS, mask=MASK)
add("FullAttention.cls_row", LAYER.cls_row, tokens=TOKENS, cls=KEY, mask=MASK)
add("FullAttention.reduced", LAYER.reduced, cls=KEY)
add(
    "attention_weights",
    at.attention_weights,
    predictor=at.Softmax(0.5),
    k=KEY,
    tokens=TOKENS,
    mask=MASK,
)
add(
    "predict", at.predict, predictor=at.Softmax(0.5), k=KEY, v=VALUE, tokens=TOKENS, mask=MASK
)
add(
    "TransformerBlock", at.TransformerBlock, dim=6, heads=2, hidden=4, inverse_temperature=0.5
)
add("SimplifiedAttention", at.SimplifiedAttention, dim=6, inverse_temperature=0.5)
add("DenseNet", at.DenseNet, dim=6, length=4, hidden=5)
add("DenseNet.matching", at.DenseNet.matching, model=BLOCK, length=4)
add("GatedRecurrent", at.GatedRecurrent, dim=6, hidden=3)
for word, model in MODELS.items():
    p = model.init(seed=0)
    plain = {"parameters": p, "tokens": TOKENS}
    add(f"{word}.init", model.init, seed=0)
    padded = {} if word == "DenseNet" else {"mask": MASK}
    add(f"{word}.predict", model.predict, **plain, **padded)
    add(f"{word}.sensitivity", model.sensitivity, **plain, location=LOCATION)
    for method in ("attention", "directions", "observe"):
        if hasattr(model, method):
            add(f"{word}.{method}", getattr(model, method), **plain)

OPERATOR = {"query": QUERY, "keys": KEYS, "values": VALUES}
add("cme_attention", at.cme_attention, **OPERATOR, bandwidth=1.0, ridge=0.2)
add("cme_solve", at.cme_solve, **OPERATOR, bandwidth=1.0, ridge=0.2)
add("cme_variance", at.cme_variance, query=QUERY, keys=KEYS, bandwidth=1.0, ridge=0.2)
add("linear_attention", at.linear_attention, **OPERATOR, scale=0.5)
add("softmax_attention", at.softmax_attention, **OPERATOR, bandwidth=0.5, sink=0.1)
add("local_linear_attention", at.local_linear_attention, **OPERATOR, bandwidth=0.5, ridge=0.1)
add("delta_attention", at.delta_attention, **OPERATOR, step=0.2, decay=0.9)
add("gated_linear_attention", at.gated_linear_attention, **OPERATOR, decay=0.9, scale=0.5)
add("recursive_least_squares", at.recursive_least_squares, **OPERATOR, decay=0.9, ridge=0.2)
add(
    "attention_decision",
    at.attention_decision,
    query=QUERY,
    keys=KEYS,
    outcomes=VALUES[..., 0],
    cost=squared,
    actions=np.arange(3.0),
    bandwidth=0.5,
)
add(
    "attention_decision (newsvendor)",
    at.attention_decision,
    query=QUERY,
    keys=KEYS,
    outcomes=VALUES[..., 0],
    cost=(3.0, 1.0),
    bandwidth=0.5,
)
