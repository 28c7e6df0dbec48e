"""The predictors that settings name."""

from __future__ import annotations

from typing import Any

import attnscope as at
from stress.subject import Setting

__all__ = ["HEADS", "predictor_of"]

HEADS: dict[str, Any] = {
    "softmax": at.Softmax,
    "softmax-1": at.SoftmaxOne,
    "softplus": at.SoftplusAttention,
    "erf": at.Erf,
    "linear": lambda lam: at.LinearAttention(lam, 0.0),
}


def predictor_of(setting: Setting) -> Any:
    """The predictor a setting names, at its inverse temperature."""
    return HEADS[setting["kind"]](setting["inverse_temperature"])


def plain_predictor(setting: dict[str, Any]) -> Any:
    """The predictor of a setting's kind: erf, linear with offset 1/2, or softmax."""
    lam = setting["inverse_temperature"]
    return {
        "erf": at.Erf(lam),
        "linear": at.LinearAttention(lam, 0.5),
        "softmax": at.Softmax(lam),
    }[setting["kind"]]
