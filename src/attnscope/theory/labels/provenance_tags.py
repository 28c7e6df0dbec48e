"""Which projections a label reads, as a proof: every entry carries the set it was computed from.

notation: f (m, L, r) projections, one row for each value of the latent; bit (l, j) stands for f_lj.

The label is run once on an array of sets. An elementwise function joins the sets of its inputs, a
reduction those along its axis, an index that depends on values those of everything it may reach. An
exact 0 of a plain array times a finite number is 0, and reads nothing. So the sets can be too
large, never too small, for code that stays within NumPy; code that leaves it (float(), a loop that
decides, another library) raises `Unsupported`.

Beside its set every entry carries a 64-bit code of the expression it was computed by: of a function
the mixed codes of its name and its inputs, of a plain number its bits. Two rows with one code are
one function of what they read, up to a collision of chance 2^-64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attnscope.theory.labels.carriers import Carrier, Unsupported, handled

__all__ = ["Reads", "Tags", "reads_of"]

# functions along one axis whose result depends on all entries of that axis
AXIS_FUNCTIONS: set[Any] = {
    np.argmax,
    np.argmin,
    np.sort,
    np.argsort,
    np.cumsum,
    np.cumprod,
    np.median,
}
SAME_SHAPE_FUNCTIONS: set[Any] = {np.sort, np.argsort, np.cumsum, np.cumprod}


SPLITMIX_INCREMENT = np.uint64(0x9E3779B97F4A7C15)  # increment of the splitmix64 generator
ZERO_CODE = np.uint64(0)  # the code of the number 0


def mixed(*codes: Any) -> Any:
    """One code from several, in order (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        out: Any = np.uint64(0x243F6A8885A308D3)
        for code in codes:
            x = (np.asarray(code, dtype=np.uint64) ^ out) + SPLITMIX_INCREMENT
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            out = x ^ (x >> np.uint64(31))
        return out


def named(name: str) -> np.uint64:
    """The code of a function's name."""
    return mixed(*(np.uint64(c) for c in name.encode()))


def numbers(plain: Any) -> np.ndarray:
    """Codes of plain numbers: their bits; 0.0 and -0.0 are 0."""
    values = np.ascontiguousarray(np.asarray(plain), dtype=np.float64) + 0.0
    return np.where(
        values == 0, ZERO_CODE, mixed(values.view(np.uint64).reshape(np.shape(plain)))
    )


ONE_CODE = numbers(1.0)[()]  # the code of the number 1


class Tags(Carrier):
    """bits (*shape, B) bool, codes (*shape) uint64; expressions without a code of their own all get
    different ones.
    """

    fresh = 0

    def __init__(self, bits: np.ndarray, codes: np.ndarray | None = None) -> None:
        self.bits = bits
        self.shape = bits.shape[:-1]
        if codes is None:
            count = int(np.prod(self.shape))
            first = Tags.fresh
            Tags.fresh += count
            unique = np.arange(first, first + count, dtype=np.uint64).reshape(self.shape)
            codes = mixed(named("an expression of its own"), unique)
        self.codes = codes

    def gather(self, places: np.ndarray) -> Tags:
        return Tags(
            self.bits.reshape(-1, self.bits.shape[-1])[places], self.codes.ravel()[places]
        )

    def joined(self, parts: list[Any]) -> Tags:
        width = self.bits.shape[-1]
        return Tags(
            np.concatenate([x.bits.reshape(-1, width) for x in parts]),
            np.concatenate([x.codes.ravel() for x in parts]),
        )

    def lifted(self, plain: Any) -> Tags:
        empty = np.zeros((*np.shape(plain), self.bits.shape[-1]), bool)
        return Tags(empty, numbers(plain))

    def astype(self, dtype: Any, **_: Any) -> Any:
        return self

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        at = [i for i, x in enumerate(parts) if isinstance(x, Tags)]
        if not at:
            return super().__getitem__(key)
        if any(x is Ellipsis or x is None for x in parts) or len(at) > 1:
            raise Unsupported("an index that depends on a value")
        axis = at[0]
        index = parts[axis]
        found = None
        for value in range(self.shape[axis]):
            tried = list(parts)
            tried[axis] = np.full(index.shape, value)
            bits = self.gather(self.places()[tuple(tried)]).bits
            found = bits if found is None else found | bits
        if found is None:
            raise Unsupported("an index into nothing")
        # the index itself, entry by entry where the shapes agree, else altogether
        own = (
            index.bits
            if index.shape == found.shape[:-1]
            else index.bits.any((*range(index.ndim),))
        )
        return Tags(found | own)

    def assign(self, key: Any, value: Any) -> None:
        new = value if isinstance(value, Tags) else self.lifted(value)
        if isinstance(key, Tags):
            if key.shape != self.shape or new.ndim:
                raise Unsupported("assignment of several values where a comparison holds")
            found = self.chosen(key, new, self)
            self.bits, self.codes = found.bits, found.codes
            return
        bits, codes = self.bits.copy(), self.codes.copy()
        bits[key] = np.broadcast_to(new.bits, bits[key].shape)
        codes[key] = np.broadcast_to(new.codes, codes[key].shape)
        self.bits, self.codes = bits, codes

    def ufunc(self, ufunc: np.ufunc, inputs: list[Any]) -> Any:
        if ufunc.nout > 1:
            raise Unsupported(ufunc.__name__)
        given = [x if isinstance(x, Tags) else self.lifted(x) for x in inputs]
        out = self.named_function(ufunc.__name__, given)
        shape, bits, codes = out.shape, out.bits, out.codes
        if ufunc is np.multiply:
            for x, other in zip(given, given[::-1]):
                nothing = np.broadcast_to(x.codes == ZERO_CODE, shape)
                bits &= ~nothing[..., None]
                codes = np.where(
                    nothing, ZERO_CODE, np.where(x.codes == ONE_CODE, other.codes, codes)
                )
        if ufunc is np.add and len(given) == 2:
            for x, other in zip(given, given[::-1]):
                codes = np.where(x.codes == ZERO_CODE, other.codes, codes)
        return Tags(bits, codes)

    def chosen(self, condition: Any, a: Any, b: Any) -> Tags:
        return self.named_function("where", (condition, a, b))

    def contracted(self, function: Callable[..., Any], inputs: list[Any]) -> Tags:
        """A sum of products: bit by bit, with ones for what is not 0."""
        shown: list[list[np.ndarray]] = []
        for x in inputs:
            if isinstance(x, Tags):
                ones = np.ones(x.shape)
                shown.append([np.moveaxis(x.bits, -1, 0) * 1.0, ones])
            else:
                shown.append([(np.asarray(x) != 0) * 1.0])
        width = self.bits.shape[-1]
        found = None
        for at, x in enumerate(inputs):
            if not isinstance(x, Tags):
                continue
            rows = []
            for b in range(width):
                given = [s[0][b] if i == at else s[-1] for i, s in enumerate(shown)]
                rows.append(function(*given) > 0)
            bits = np.stack(rows, axis=-1)
            found = bits if found is None else found | bits
        assert found is not None
        return Tags(found)

    def function(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if function in (np.std, np.var, np.ptp, np.linalg.norm):
            if kwargs.get("ord") is not None:
                raise Unsupported(function.__name__)
            rest = args[1:] if function is not np.linalg.norm else args[2:]
            axis = rest[0] if rest else kwargs.get("axis")
            return self.reduced(np.add, args[0], axis, kwargs.get("keepdims") is True)
        if function in (np.nan_to_num, np.real, np.sinc):
            return args[0]
        if function in AXIS_FUNCTIONS:
            return self.along(
                function,
                args[0],
                args[1] if len(args) > 1 else kwargs.get("axis", _default_axis(function)),
            )
        if function is np.interp:
            return Tags(args[0].bits) if isinstance(args[0], Tags) else self.lifted(args[0])
        if function is np.take_along_axis and isinstance(args[1], Tags):
            source, index = args[0], args[1]
            axis = args[2] if len(args) > 2 else kwargs["axis"]
            every = source if isinstance(source, Tags) else self.lifted(source)
            joined = every.bits.any(axis % every.ndim, keepdims=True)
            return Tags(
                np.broadcast_to(joined, (*index.shape, joined.shape[-1])) | index.bits
            )
        raise Unsupported(function.__name__)

    def named_function(self, name: str, args: Any) -> Tags:
        """An elementwise function of this name."""
        given = [x if isinstance(x, Tags) else self.lifted(x) for x in args]
        shape = np.broadcast_shapes(*(x.shape for x in given))
        bits = np.zeros((*shape, self.bits.shape[-1]), bool)
        for x in given:
            bits |= x.bits
        codes = mixed(named(name), *(x.codes for x in given))
        return Tags(bits, np.array(np.broadcast_to(codes, shape)))

    def along(self, function: Any, x: Tags, axis: Any) -> Tags:
        """Everything along the axis goes into every entry of the result."""
        if axis is None:
            x, axis = x.reshape(-1), 0
        axis = axis % x.ndim
        joined = x.bits.any(axis, keepdims=True)
        if function in SAME_SHAPE_FUNCTIONS:
            return Tags(np.broadcast_to(joined, x.bits.shape).copy())
        return Tags(np.asarray(joined.squeeze(axis)))

    def argmax(self, axis: Any = None) -> Tags:
        return self.along(np.argmax, self, axis)

    def argmin(self, axis: Any = None) -> Tags:
        return self.along(np.argmin, self, axis)


def _default_axis(function: Any) -> Any:
    return -1 if function in (np.sort, np.argsort) else None


class Reads(NamedTuple):
    """reads (m, L, r) bool; codes (m,): rows with one code are one function of the projections they
    read, in the order of their places.
    """

    reads: np.ndarray
    codes: np.ndarray


def reads_of(label: Callable[[Any, Any], Any], values: np.ndarray, L: int, r: int) -> Reads:
    """What label(fields, latent) reads for each value of its latent.

    Args:
        label: the author's code, of one argument that is replaced here.
        values: (m, ...) values of the latent.
    """
    m = len(values)
    bits = np.zeros((m, L, r, L * r), bool)
    for place, (l, j) in enumerate(np.ndindex(L, r)):
        bits[:, l, j, place] = True
    first = _label_tags(label, Tags(bits), values)
    reads = first.bits.reshape(m, -1, L * r).any(1).reshape(m, L, r)
    # the same once more, with codes that number what is read
    number = np.cumsum(reads.reshape(m, -1), axis=1).reshape(m, L, r)
    codes = mixed(named("read"), np.where(reads, number, 0).astype(np.uint64))
    again = _label_tags(label, Tags(bits, codes), values)
    return Reads(reads, mixed(*np.moveaxis(again.codes.reshape(m, -1), 1, 0)))


def _label_tags(label: Callable[[Any, Any], Any], fields: Tags, values: np.ndarray) -> Tags:
    found = handled(label(fields, values))
    if not isinstance(found, Tags):
        if not (isinstance(found, np.ndarray) and found.dtype.kind in "biuf"):
            raise Unsupported("a label that is no array")
        found = fields.lifted(found)
    if not found.shape or found.shape[0] != len(values):
        raise Unsupported(f"a label of shape {found.shape}")
    return found
