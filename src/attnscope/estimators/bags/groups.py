"""Groups of bags (a patient, an image), and tokens that occur in more than one bag.

Bags of one group are not independent: they are held out together or not at all (fit/held_out.py),
and each group counts once in the coverage guarantees (fit/intervals.py). The caller may name a
group by any value; here it is a number.

    row hash   h(x) = sum_j m_j mix(x_j) mod 2^64 of a token's bits, m_j odd and fixed; rows with the
        same hash are compared completely, so reported rows are exactly equal

notation: n bags, N tokens, d features; codes (n,): the group of each bag, 0, 1, ...
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.estimators.bags.bags import Bags
from attnscope.estimators.bags.forms import per_bag
from attnscope.numerics.border.whole_values import refuse_missing

__all__ = ["SharedRows", "bag_groups", "shared_rows", "take_bags", "warn_of_shared_rows"]

HASH_BLOCK_NUMBERS = 2**22  # hashed at a time: 32 MB
# enough to distinguish nearly all rows, at a hundredth of the cost of 1,536
HASHED_FEATURES = 16
# a row in this share of the bags is common (padding, "the") and does not indicate a common origin
COMMON_ROW_SHARE = 0.1
# a common row is in at least so many bags: with ten bags, 10 % would be every row
MIN_COMMON_ROW_BAGS = 4
# if a bag shares tokens with this share of the other bags, tokens come from a vocabulary, as they
# will in new bags, and there is no warning
VOCABULARY_PARTNER_SHARE = 0.25
COUNTED_BAGS = 200  # evenly spaced bags whose partners are counted


class SharedRows(NamedTuple):
    """The number of tokens that occur in more than one bag, the number of these bags, one pair of
    them, and the average share of the other bags with which such a bag shares tokens.
    """

    tokens: int
    bags: int
    pair: tuple[int, int]
    partners: float


def bag_groups(
    groups: Any, held: Bags, of: str, weight: np.ndarray | None = None
) -> np.ndarray | None:
    """Codes (n,). None if no groups are given, or if no group has two bags (of positive weight, if
    there are weights).
    """
    groups = per_bag(groups, held.rows, of, "groups")
    if groups is None:
        return None
    n = len(held)
    refuse_missing(groups, "groups", of, "give every bag a group")
    a = np.asarray(groups)
    if a.ndim == 2 and a.shape[1] == 1:
        a = a[:, 0]
    if a.shape != (n,):
        raise bad("groups", of, f"one group per bag, shape ({n},)", f"shape {a.shape}")
    if a.dtype.kind == "O":
        a = a.astype(str)
    codes = np.unique(a, return_inverse=True)[1].reshape(n)
    counts = np.bincount(codes if weight is None else codes[weight > 0])
    if np.count_nonzero(counts) < 2:
        must = "at least two groups, one to hold out and one to fit"
        raise bad("groups", of, must, "one group", "groups=None")
    return codes if counts.max() > 1 else None


def take_bags(bags: Bags, which: np.ndarray) -> Bags:
    """The bags of these numbers."""
    lengths = bags.lengths[which]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    first = bags.offsets[:-1][which]
    rows = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], lengths)
    known = None if bags.known is None else bags.known[which]
    return Bags(bags.tokens[rows], offsets, "list", known=known)


# -- tokens that stand in more than one bag --------------------------------------------------------


def warn_of_shared_rows(bags: Bags, weight: np.ndarray, of: str) -> None:
    """Warn if bags of positive weight share tokens in a way that indicates a common origin."""
    kept = np.flatnonzero(weight)
    found = shared_rows(bags if len(kept) == len(bags) else take_bags(bags, kept))
    if found is None or found.partners > VOCABULARY_PARTNER_SHARE:
        return
    i, j = kept[list(found.pair)]
    tokens = "1 token stands" if found.tokens == 1 else f"{found.tokens} tokens stand"
    warnings.warn(
        f"{of}: {tokens} in more than one bag (one of bags {i} and {j} is the same to the last "
        f"digit; {found.bags} bags share tokens), and held-out errors and intervals are too "
        "small where bags of one origin are on either side; try groups= with the origin of each "
        "bag.",
        stacklevel=5,
    )


def shared_rows(bags: Bags) -> SharedRows | None:
    """Tokens that are equal to the last bit in two or more bags, except rows of one repeated number
    (padding) and rows in a tenth of all bags. None if there are none.
    """
    d = bags.tokens.shape[1]
    if d == 1:
        return None
    if d <= HASHED_FEATURES:
        tokens = bags.tokens
        bag_of = np.repeat(np.arange(len(bags)), bags.lengths)
    else:  # first the rows that are equal in a few features
        some = _row_hashes(bags.tokens[:, :: d // HASHED_FEATURES])
        _, code, times = np.unique(some, return_inverse=True, return_counts=True)
        duplicated = np.flatnonzero(times[code] > 1)
        tokens = bags.tokens[duplicated]
        bag_of = np.repeat(np.arange(len(bags)), bags.lengths)[duplicated]
    if len(tokens) < 2:
        return None
    hashes = _row_hashes(tokens)
    order = np.argsort(hashes, kind="stable")
    # equal neighbours in order of the hash, compared in full
    at = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    if len(at) == 0:
        return None
    equal = (tokens[order[at]] == tokens[order[at + 1]]).all(axis=1)
    joined = np.zeros(len(order), bool)
    joined[at[equal] + 1] = True
    kind = np.empty(len(order), np.int64)
    kind[order] = np.cumsum(~joined) - 1
    # which kinds of row are in which bags, once each
    pairs = np.unique(kind * len(bags) + bag_of)
    kinds = pairs // len(bags)
    in_bags = np.bincount(kinds)
    most = max(MIN_COMMON_ROW_BAGS, COMMON_ROW_SHARE * len(bags))
    first = np.empty(len(in_bags), np.int64)
    first[kind[::-1]] = np.arange(len(kind))[::-1]
    shared = in_bags > 1
    shared[shared] = np.ptp(tokens[first[shared]], axis=1) > 0
    keep = shared & (in_bags < most)
    if not keep.any():
        return None
    where = pairs[keep[kinds]] % len(bags)
    sharing = np.unique(where)
    # rows in a fifth of the bags come from a vocabulary; rows in most bags may come from anywhere
    informative = (shared & (in_bags <= max(most, len(bags) / 2)))[kinds]
    partners = _mean_partners(kinds[informative], pairs[informative] % len(bags), sharing)
    share = partners / max(len(bags) - 1, 1)
    pair = (int(where[0]), int(where[1]))
    return SharedRows(int(keep[kind].sum()), len(sharing), pair, share)


def _mean_partners(kinds: np.ndarray, where: np.ndarray, sharing: np.ndarray) -> float:
    """Average number of other bags that a sharing bag shares a row with; row kinds[i], ascending,
    is in bag where[i].
    """
    counts = []
    by_bag = np.argsort(where, kind="stable")
    edges = np.searchsorted(where[by_bag], [sharing, sharing + 1])
    for i in range(0, len(sharing), 1 + len(sharing) // COUNTED_BAGS):
        own = kinds[by_bag[edges[0, i] : edges[1, i]]]
        ends = np.searchsorted(kinds, [own, own + 1]).T
        met = np.concatenate([where[a:b] for a, b in ends])
        counts.append(len(np.unique(met)) - 1)
    return float(np.mean(counts))


def _row_hashes(tokens: np.ndarray) -> np.ndarray:
    d = tokens.shape[1]
    factor = np.random.default_rng(0).integers(2**63, size=d, dtype=np.uint64) * 2 + 1
    out = np.empty(len(tokens), np.uint64)
    step = max(1, HASH_BLOCK_NUMBERS // d)
    for i in range(0, len(tokens), step):
        # + 0.0: minus zero is zero
        bits = (tokens[i : i + step] + 0.0).view(np.uint64)
        # the last bits of short numbers are zero, and only they reach the last bits of a product
        bits ^= bits >> np.uint64(32)
        bits *= factor
        bits ^= bits >> np.uint64(29)
        out[i : i + step] = bits.sum(axis=1)
    return out
