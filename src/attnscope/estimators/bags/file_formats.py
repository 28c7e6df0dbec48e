"""File formats of bags: which bags a file holds, and how to read one of them.

    .npy            (N, d): one bag; (1, N, d): the same; (n, L, d): n bags. Memory-mapped.
    .npz            `features` as above (or the only array of two dimensions), `coords` (N, c);
        `bags` (n, L, d) with `mask` (n, L); `tokens` (N, d) with `offsets` (n+1,)
    .h5, .hdf5      `features` (N, d) or (1, N, d), `coords` (N, c), at the top, or one group per bag
    .parquet        a column `features` of lists, see parquet_lists.py

An `Entry` describes a bag, from headers only; it can be sent to another process. A .pt file is a
pickle, which executes code when read: it is refused, with instructions to convert it. notation:
N tokens of d features; `of` is the path, which every error names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, listed
from attnscope.estimators.bags.file_sizes import refuse_large, refuse_large_bags
from attnscope.estimators.bags.forms import are_offsets
from attnscope.estimators.bags.h5_files import own_object
from attnscope.numerics.border.array_files import Header, array_headers, parser_words
from attnscope.optional import absent

__all__ = [
    "PICKLE_SUFFIXES",
    "Entry",
    "Held",
    "Keys",
    "Place",
    "cached_array",
    "h5_entries",
    "h5_part",
    "name_file_in_errors",
    "npy_entries",
    "npy_part",
    "npz_entries",
    "npz_part",
    "one_or_many",
    "refusal_of_pickle",
]

PICKLE_SUFFIXES = (".pt", ".pth", ".pkl", ".pickle")


class Keys(NamedTuple):
    """Names of the arrays, datasets or columns: tokens, their coordinates, the bag's name."""

    features: str = "features"
    coords: str = "coords"
    bag: str = "bag"


class Place(NamedTuple):
    """The location of a bag in its file: names of the arrays of tokens and of coordinates ("": none),
    the bag's number on the first axis (-1: the array is the bag), rows start:stop of the tokens,
    name of the mask.
    """

    tokens: str = ""
    coords: str = ""
    number: int = -1
    start: int = 0
    stop: int = -1
    mask: str = ""


class Entry(NamedTuple):
    """An unread bag: its name, file, location in the file, shape (N, d) and dtype."""

    name: str
    path: Path
    place: Place
    shape: tuple[int, int]
    dtype: np.dtype


# the last array that had to be read completely for a part of it, by (path, name); one at a time
Held = dict[tuple[Path, str], np.ndarray]


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Turn any error of a reader into one that names the file. A device is never read: its contents
    may not end.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise AttnscopeError(f"{path} must be a file, got a device or a pipe.")
    try:
        yield
    except AttnscopeError:
        raise
    except (
        Exception
    ) as error:  # parsers raise many kinds of errors; unreadable input is the cause
        missing = absent(error, str(path)) if isinstance(error, ImportError) else None
        raise missing or AttnscopeError(
            f"{path} must be a {path.suffix} file that can be read, got: {parser_words(error)}."
        ) from None


def refusal_of_pickle(path: Path) -> AttnscopeError:
    """The error for a pickle, with instructions to convert it for a caller who trusts it."""
    target = path.with_suffix(".npy").name
    if path.suffix in (".pt", ".pth"):
        how = f"np.save('{target}', torch.load('{path.name}', weights_only=True).numpy())"
    else:
        how = f"np.save('{target}', pickle.load(open('{path.name}', 'rb')))"
    return AttnscopeError(
        f"{path} must be a .npy, .npz, .h5 or .parquet file, got a pickle, which can run any "
        f"code and is never opened here; if you trust it, try {how}."
    )


def one_or_many(
    stem: str, path: Path, array: Any, place: Place, mask: np.ndarray | None = None
) -> list[Entry]:
    """The bags of an array (N, d), (1, N, d) or (n, L, d), of which only shape and type are read."""
    shape = tuple(array.shape)
    dtype = np.dtype(array.dtype)
    what = place.tokens or "the array"
    if dtype.kind not in "fiub":
        raise AttnscopeError(f"{what} of {path} must hold real numbers, got {dtype}.")
    if len(shape) not in (2, 3) or 0 in shape:
        raise AttnscopeError(
            f"{what} of {path} must be (N, d), (1, N, d) or (n, L, d), none of them 0, "
            f"got shape {shape}."
        )
    refuse_large_bags(shape, dtype.itemsize, what, path)
    if len(shape) == 2:
        return [Entry(stem, path, place, (shape[0], shape[1]), dtype)]
    counts = np.full(shape[0], shape[1]) if mask is None else mask.sum(axis=1)
    if not counts.all():
        raise AttnscopeError(
            f"{place.mask} of {path} must be true somewhere in every bag, got only padding in "
            f"bag {int(np.argmin(counts))}."
        )
    return [
        Entry(
            stem if shape[0] == 1 else f"{stem}:{i}",
            path,
            place._replace(number=i),
            (int(count), shape[2]),
            dtype,
        )
        for i, count in enumerate(counts)
    ]


def bag_part(array: Any, place: Place) -> Any:
    """The bag's part of an array (N, .) or (n, N, .)."""
    if len(array.shape) == 3:
        return array[max(place.number, 0)]
    return array[place.start : place.stop] if place.stop >= 0 else array[()]


def cached_array(
    held: Held, path: Path, name: str, read: Callable[[Path, str], np.ndarray]
) -> np.ndarray:
    """An array that can only be read completely, from memory if it was the last one."""
    if (path, name) not in held:
        for other in [key for key in held if key[1] == name or key[0] != path]:
            del held[other]
        held[path, name] = read(path, name)
    return held[path, name]


# -- .npy, .npz ------------------------------------------------------------------------------------


def npy_entries(path: Path, keys: Keys) -> list[Entry]:
    return one_or_many(path.stem, path, _memory_map(path), Place())


def npy_part(path: Path, name: str, place: Place, held: Held) -> np.ndarray:
    return bag_part(_memory_map(path), place)


def _memory_map(path: Path) -> np.ndarray:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def npz_part(path: Path, name: str, place: Place, held: Held) -> np.ndarray:
    return bag_part(cached_array(held, path, name, _npz_array), place)


def _npz_array(path: Path, name: str) -> np.ndarray:
    with np.load(path, allow_pickle=False) as file:
        return file[name]


def npz_entries(path: Path, keys: Keys) -> list[Entry]:
    found = array_headers(path)
    for name, header in found.items():  # each is read as a whole
        size = math.prod(header.shape) * header.dtype.itemsize
        refuse_large(size, listed([name]), path)
    coords = keys.coords if keys.coords in found else ""
    if keys.features in found:
        place = Place(keys.features, coords)
        return one_or_many(path.stem, path, found[keys.features], place)
    if "bags" in found:
        if "mask" not in found:
            return one_or_many(path.stem, path, found["bags"], Place("bags", coords))
        mask = _npz_array(path, "mask").astype(bool)
        if mask.shape != found["bags"].shape[:2]:
            raise AttnscopeError(
                f"mask of {path} must be (n, L) for bags (n, L, d), got shape {mask.shape} for "
                f"{found['bags'].shape}."
            )
        place = Place("bags", coords, mask="mask")
        return one_or_many(path.stem, path, found["bags"], place, mask)
    if "tokens" in found and "offsets" in found:
        return _cut_entries(path, found["tokens"], _npz_array(path, "offsets"), coords)
    plain = [n for n, h in found.items() if len(h.shape) >= 2 and n != keys.coords]
    if len(plain) == 1:
        return one_or_many(path.stem, path, found[plain[0]], Place(plain[0], coords))
    raise AttnscopeError(
        f"{path} must hold an array {keys.features}, or bags, or tokens with offsets, got "
        f"{listed(sorted(found))}; try features= with its name."
    )


def _cut_entries(path: Path, tokens: Header, offsets: np.ndarray, coords: str) -> list[Entry]:
    """Tokens (N, d) cut at offsets (n+1,)."""
    whole = one_or_many(path.stem, path, tokens, Place("tokens", coords))[0]
    if len(tokens.shape) != 2 or not are_offsets(offsets, tokens.shape[0]):
        raise AttnscopeError(
            f"offsets of {path} must be increasing whole numbers from 0 to {tokens.shape[0]}, "
            f"got shape {offsets.shape} of {offsets.dtype}."
        )
    return [
        whole._replace(
            name=f"{path.stem}:{i}",
            place=whole.place._replace(start=int(start), stop=int(stop)),
            shape=(int(stop - start), whole.shape[1]),
        )
        for i, (start, stop) in enumerate(pairwise(offsets))
    ]


# -- .h5 -------------------------------------------------------------------------------------------


def h5_entries(path: Path, keys: Keys) -> list[Entry]:
    import h5py

    with h5py.File(path, "r") as file:
        if own_object(file, keys.features, path) is not None:
            return _h5_bags(path.stem, path, file, keys.features, keys.coords)
        found = []
        for group in sorted(file):
            name = f"{group}/{keys.features}"
            is_group = isinstance(own_object(file, group, path), h5py.Group)
            if is_group and own_object(file, name, path) is not None:
                coords = f"{group}/{keys.coords}"
                found += _h5_bags(f"{path.stem}:{group}", path, file, name, coords)
        if not found:
            raise AttnscopeError(
                f"{path} must hold a dataset {keys.features}, at the top or in groups, got "
                f"{listed(sorted(file))}; try features= with its name."
            )
        return found


def _h5_bags(stem: str, path: Path, file: Any, name: str, coords: str) -> list[Entry]:
    """The bags of a dataset, whose coordinates are checked with it."""
    held = coords if own_object(file, coords, path) is not None else ""
    for part in filter(None, (name, held)):
        numbers = own_object(file, part, path)
        chunk = math.prod(
            numbers.chunks or ()
        )  # read as a whole, and may be larger than the data
        refuse_large(chunk * numbers.dtype.itemsize, f"a chunk of {listed([part])}", path)
    if held:
        one_or_many(stem, path, file[held], Place(held))
    return one_or_many(stem, path, file[name], Place(name, held))


def h5_part(path: Path, name: str, place: Place, held: Held) -> np.ndarray:
    import h5py

    with h5py.File(path, "r") as file:
        return np.asarray(bag_part(own_object(file, name, path), place))
