"""Mutations of claims: each makes one sentence of a statement false, and the verdict must change.

A mutation acts on what the sentence speaks of (a stated number, a rule, an exponent, an order, an
effect), never on the arithmetic of the comparison that tests it. The mutations of one claim stand in
tests/claims/mutations/FILE.py, FILE being the name of the claim's module:

    KEEP       names of expensive functions in the claim's module that no mutation reaches; each is
               computed once per process and argument
    MUTATIONS  `moved` for a number that the statement gives (a constant of the module, so that
               the sentence and the comparison read the same one), `replaced` for everything else
    REBUILT    {`what` of a comparison of 0.2.0: why its numbers are others now, or why it is gone},
               for claims that are measured better than in 0.2.0, or without what no sentence needs

Generators among the arguments of a kept function are set to where the first call left them, so that
what is drawn afterwards is the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import pytest

from attnscope.claims.claim import Claim, Comparison, Context, Evidence

FOLDER = Path(__file__).parents[1] / "claims" / "mutations"
LARGEST = 0.2  # share of a stated number by which it is moved at the most
OF_DETECTABLE = 2.0  # a stated number is moved by this many detectable deviations


@dataclass(frozen=True)
class Mutation:
    """One way in which a sentence can be false.

    key: of the comparison that must break. words: what was made false. apply: (patch, module of the
    claim, baseline comparison of the key) -> None.
    """

    key: str
    words: str
    apply: Callable[[pytest.MonkeyPatch, ModuleType, Comparison], None]


def moved(
    key: str, name: str, up: bool | None = None, entry: Any = None, by: float | None = None
) -> tuple[Mutation, ...]:
    """The constant `name` of the claim's module, moved up and down by twice the detectable
    deviation of the comparison, at most by 20 %.

    up: in one direction only (for sentences that say "at most" or "at least"). entry: index or key,
    if the constant is a sequence or a mapping. by: the share, where it is to be smaller.
    """

    def mutation(sign: int) -> Mutation:
        def apply(patch: pytest.MonkeyPatch, module: ModuleType, base: Comparison) -> None:
            share = min(OF_DETECTABLE * base.detectable, LARGEST) if by is None else by
            assert 0 < share <= LARGEST, (key, share)
            now = getattr(module, name)
            patch.setattr(module, name, _scaled(now, entry, 1 + sign * share))

        at = name if entry is None else f"{name}[{entry!r}]"
        return Mutation(key, f"{at} moved {'up' if sign > 0 else 'down'}", apply)

    signs = (1, -1) if up is None else (1 if up else -1,)
    return tuple(mutation(sign) for sign in signs)


def replaced(
    key: str, words: str, name: str, change: Callable[[Any], Any]
) -> tuple[Mutation, ...]:
    """`name` of the claim's module, or "package.module:name", replaced by change(original)."""

    def apply(patch: pytest.MonkeyPatch, module: ModuleType, base: Comparison) -> None:
        where, _, attribute = name.rpartition(":")
        home = import_module(where) if where else module
        patch.setattr(home, attribute, change(getattr(home, attribute)))

    return (Mutation(key, words, apply),)


def _scaled(value: Any, entry: Any, factor: float) -> Any:
    if entry is None:
        return np.asarray(value) * factor if np.ndim(value) else value * factor
    if isinstance(value, dict):
        return {**value, entry: value[entry] * factor}
    moved = list(value)
    moved[entry] = moved[entry] * factor
    return np.array(moved) if isinstance(value, np.ndarray) else tuple(moved)


def module_of(claim: Claim) -> ModuleType:
    return import_module(claim.check.__module__)


def _file_of(claim: Claim) -> Any:
    """The module of the claim's mutations; None if it has none."""
    name = claim.check.__module__.rpartition(".")[2]
    there = (FOLDER / f"{name}.py").is_file()
    return import_module(f"claims.mutations.{name}") if there else None


def mutations_of(claim: Claim) -> tuple[Mutation, ...]:
    return tuple(getattr(_file_of(claim), "MUTATIONS", ()))


def rebuilt_of(claim: Claim) -> dict[str, str]:
    return dict(getattr(_file_of(claim), "REBUILT", {}))


_KEPT: dict[bytes, tuple[Any, list[dict[str, Any]]]] = {}


def _keep(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    """The function, computed once per argument in this process."""

    @functools.wraps(function)
    def kept(*args: Any, **kwargs: Any) -> Any:
        streams = [x for x in (*args, *kwargs.values()) if isinstance(x, np.random.Generator)]
        key = cloudpickle.dumps((label, args, kwargs))
        if key not in _KEPT:
            value = function(*args, **kwargs)
            _KEPT[key] = (value, [stream.bit_generator.state for stream in streams])
        value, states = _KEPT[key]
        for stream, state in zip(streams, states):
            stream.bit_generator.state = state
        return value

    return kept


def checked(claim: Claim, mutation: Mutation | None, base: Comparison | None) -> Evidence:
    """The claim's evidence at seed 0, under a mutation or none."""
    module = module_of(claim)
    keep = getattr(_file_of(claim), "KEEP", ())
    with pytest.MonkeyPatch.context() as patch:
        for name in keep:
            patch.setattr(module, name, _keep(getattr(module, name), f"{claim.id} {name}"))
        if mutation is not None:
            assert base is not None
            mutation.apply(patch, module, base)
        return claim.check(Context(seed=0))


@functools.cache
def baseline(claim_id: str) -> Evidence:
    """The evidence without any mutation, kept functions filled."""
    from helpers.claim_contract import claim

    return checked(claim(claim_id), None, None)


def survivor(claim: Claim, mutation: Mutation) -> str:
    """Why the verdict did not change as it must; "" where it did.

    The comparison that the sentence names must turn, and with it the verdict (of a claim that is
    declared to fail, the comparison alone: its verdict may rest on another one).
    """
    before = baseline(claim.id)
    base = next((c for c in before.comparisons if c.key == mutation.key), None)
    if base is None:
        return f"{claim.id}: no comparison has the key {mutation.key!r}"
    after = checked(claim, mutation, base)
    turned = next((c for c in after.comparisons if c.key == mutation.key), None)
    if turned is None or turned.holds == base.holds:
        return f"{claim.id}: {mutation.key!r} still {base.holds=}: {mutation.words}"
    if claim.expected and after.holds:
        return f"{claim.id}: the verdict still holds: {mutation.words}"
    return ""
