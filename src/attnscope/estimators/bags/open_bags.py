"""`open_bags`: bags in files as a sequence that reads a bag on access.

Opening reads headers and the label table. `bags[i]` reads the tokens of a bag in their stored dtype
and does not keep them, so memory is one bag (and one file or row group for .npz and parquet, which
cannot be read in part). Bags are in the order of their names. Every bag is checked when it is read:
real, finite numbers, with the same width as all others.

notation: n bags, bag i of lengths[i] tokens of `width` features.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.estimators.bags.file_formats import (
    PICKLE_SUFFIXES,
    Entry,
    Held,
    Keys,
    Place,
    h5_entries,
    h5_part,
    name_file_in_errors,
    npy_entries,
    npy_part,
    npz_entries,
    npz_part,
    refusal_of_pickle,
)
from attnscope.estimators.bags.forms import MAX_TOKEN_SIZE
from attnscope.estimators.bags.label_table import SHOWN_NAMES, read_labels
from attnscope.estimators.bags.parquet_lists import parquet_entries, parquet_part
from attnscope.numerics.border import validation as check

__all__ = ["OpenBags", "open_bags"]

FORMAT_READERS = {
    ".npy": (npy_entries, npy_part),
    ".npz": (npz_entries, npz_part),
    ".h5": (h5_entries, h5_part),
    ".hdf5": (h5_entries, h5_part),
    ".parquet": (parquet_entries, parquet_part),
}


class OpenBags(Sequence):
    """n bags in files: `len`, `bags[i]` (L_i, d) as stored, `bags[2:5]` or `bags[numbers]`
    a part of them, still unread; `for tokens in bags` reads one after another, any number of times.

    Also names (n,), lengths (n,), width d, and `coords(i)` (L_i, c) or None. `open_bags` makes
    them.

    Args:
        entries: the location of each bag.
        labels, weight: (n,), or None.
        skipped: names or files that were left out, with the reason.

    >>> import attnscope as at
    >>> import numpy as np
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "a.npy", np.zeros((3, 2)))
    >>> np.save(folder / "b.npy", np.zeros((5, 2)))
    >>> bags = at.open_bags(folder)
    >>> len(bags), bags.names.tolist(), bags.lengths.tolist(), bags.width
    (2, ['a', 'b'], [3, 5], 2)
    """

    def __init__(
        self,
        entries: list[Entry],
        labels: np.ndarray | None = None,
        weight: np.ndarray | None = None,
        skipped: dict[str, str] | None = None,
    ) -> None:
        self.entries = entries
        self.labels = labels
        self.weight = weight
        self.skipped = skipped or {}
        self._held: Held = {}

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def names(self) -> np.ndarray:
        return np.array([entry.name for entry in self.entries], dtype=str)

    @property
    def lengths(self) -> np.ndarray:
        return np.array([entry.shape[0] for entry in self.entries], dtype=np.int64)

    @property
    def width(self) -> int:
        return self.entries[0].shape[1]

    @property
    def paths(self) -> list[Path]:
        """The files, each once, in order."""
        return list(dict.fromkeys(entry.path for entry in self.entries))

    @overload
    def __getitem__(self, which: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, which: Any) -> Any: ...
    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, (int, np.integer)):
            return self._read_tokens(self.entries[which])
        rows = np.arange(len(self))[which]
        if rows.ndim != 1 or len(rows) == 0:
            raise bad("bags[...]", "open_bags", "a number, a slice or numbers of bags", which)
        return OpenBags(
            [self.entries[i] for i in rows],
            None if self.labels is None else self.labels[rows],
            None if self.weight is None else self.weight[rows],
        )

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self._read_tokens, self.entries)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Refused: bags of several lengths do not form an array."""
        raise bad(
            "bags",
            "open_bags",
            "given to what reads bags",
            "asked for as one array, as by StandardScaler or PCA",
            "at.BagScaler, at.BagPCA or at.BagPooling in its place",
        )

    def __repr__(self) -> str:
        what = f"{len(self)} bags, {self.lengths.sum()} tokens, {self.width} features"
        where = f"{len(self.paths)} files" if len(self.paths) > 1 else str(self.paths[0].name)
        return f"<{what} in {where}{'' if self.labels is None else ', labelled'}>"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_held": {}}  # another process reads its own

    def coords(self, i: int) -> np.ndarray | None:
        """Coordinates (L_i, c) of the tokens of bag i, or None if the file has none."""
        last = len(self.entries) - 1
        entry = self.entries[check.integer(i, "i", "OpenBags.coords", -last - 1, last)]
        if not entry.place.coords:
            return None
        with name_file_in_errors(entry.path):
            found = self._read_part(entry, entry.place.coords)
        if len(found) != entry.shape[0]:
            raise AttnscopeError(
                f"{entry.place.coords} of {entry.path} must have a row for each of the "
                f"{entry.shape[0]} tokens, got {len(found)}."
            )
        return np.asarray(found)

    def to_dask(self) -> Any:
        """The same bags as dask partitions, one per file, read by the workers (dask_bags.py)."""
        from attnscope.estimators.bags.dask_bags import DaskBags

        return DaskBags(self)

    def _read_part(self, entry: Entry, name: str) -> np.ndarray:
        read = FORMAT_READERS[entry.path.suffix.lower()][1]
        found = read(entry.path, name, entry.place, self._held)
        if entry.place.mask:
            mask = read(entry.path, entry.place.mask, Place(), self._held)
            found = found[mask[entry.place.number].astype(bool)]
        return found

    def _read_tokens(self, entry: Entry) -> np.ndarray:
        with name_file_in_errors(entry.path):
            tokens = self._read_part(entry, entry.place.tokens)
        if tokens.shape != entry.shape:
            raise AttnscopeError(
                f"{entry.path} must hold what it held when it was opened, {entry.shape} for bag "
                f"{entry.name}, got {tokens.shape}."
            )
        # NaN fails the comparison
        if not (
            float(tokens.min()) >= -MAX_TOKEN_SIZE and float(tokens.max()) <= MAX_TOKEN_SIZE
        ):
            wrong = ~(np.abs(tokens.astype(np.float64)) <= MAX_TOKEN_SIZE)
            row = int(np.argmax(wrong.any(axis=1)))
            raise AttnscopeError(
                f"bag {entry.name} of {entry.path} must hold finite numbers of size at most "
                f"{MAX_TOKEN_SIZE:g}, got {tokens[row][wrong[row]][0]} in token {row}; try dropping those "
                'tokens, or on_error="skip" to leave the bag out.'
            )
        return tokens


def open_bags(
    path: Any,
    labels: Any = None,
    *,
    features: str = "features",
    coords: str = "coords",
    bag: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    on_error: str = "stop",
) -> OpenBags:
    """Bags on disk, read on access: a folder, a file or a list of files.

    Files: .npy (memory-mapped), .npz, .h5 (`features` (N, d) or (1, N, d), `coords`) and parquet
    with a column of lists; a file is one bag named after it, or several (name:0, name:1, ...), in
    the order of their names. Other files and subfolders of a folder are ignored. Nothing is
    unpickled: a .pt file is refused with instructions to convert it.

    Args:
        path: the folder, file or files.
        labels: a .csv or .parquet table of names and labels, a mapping from names, or one label per
            bag in the order of `names`; None: no labels.
        features, coords: names of the arrays, datasets or columns.
        bag, target, weight: columns of the label table (and, for parquet, of the bags' names); left
            out: bag, name, slide_id or file; label, y or target; no weights.
        on_error: "stop" at a file that cannot be read, a bag that holds NaN, a name without a
            partner; or "skip" them, which reads every bag once when opening, warns, and lists them
            in `skipped`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> for i in range(3):
    ...     np.save(folder / f"slide{i}.npy", np.full((4 + i, 2), i, np.float32))
    >>> _ = (folder / "labels.csv").write_text("slide_id,label\\nslide0,1\\nslide1,0\\nslide2,1")
    >>> bags = open_bags(folder, labels=folder / "labels.csv")
    >>> bags
    <3 bags, 15 tokens, 2 features in 3 files, labelled>
    >>> bags.names.tolist(), bags.labels.tolist(), bags[2].shape
    (['slide0', 'slide1', 'slide2'], [1, 0, 1], (6, 2))
    """
    if on_error not in ("stop", "skip"):
        raise bad("on_error", "open_bags", '"stop" or "skip"', on_error)
    skip = on_error == "skip"
    skipped: dict[str, str] = {}
    keys = Keys(features, coords, bag or "bag")
    found: list[Entry] = []
    for file in _files_to_read(path, skip, skipped):
        try:
            found += _file_entries(file, keys)
        except AttnscopeError as error:
            if not skip:
                raise
            skipped[str(file)] = str(error)
    if skip:
        found = _readable_entries(found, skipped)
    if not found:
        why = next(iter(skipped.values()), "")
        raise AttnscopeError(
            f"open_bags must find at least one bag, got none in {path}. {why}"
        )
    found.sort(key=lambda entry: (_sort_key(entry.name), str(entry.path)))
    found = _equal_width_entries(_unique_entries(found, skip, skipped), skip, skipped)
    if labels is None:
        return _warn_of_skipped(OpenBags(found, skipped=skipped))
    names = [entry.name for entry in found]
    known = read_labels(labels, names, skip, bag, target, weight)
    for name in set(names) - {names[i] for i in known.kept}:
        skipped[name] = f"{name} has no label"
    kept = [found[i] for i in known.kept]
    return _warn_of_skipped(OpenBags(kept, known.labels, known.weight, skipped))


def _sort_key(name: str) -> tuple[str, int, str]:
    """Order by name, and within a file by number: a:2 before a:10."""
    stem, _, last = name.rpartition(":")
    return (stem, int(last), "") if stem and last.isdecimal() else (name, -1, "")


def _files_to_read(path: Any, skip: bool, skipped: dict[str, str]) -> list[Path]:
    """The files to read, checked to exist and to have a known format."""
    if isinstance(path, (list, tuple)):
        if not path:
            raise bad("path", "open_bags", "at least one file", "an empty list")
        return [file for one in path for file in _files_to_read(one, skip, skipped)]
    if not isinstance(path, (str, os.PathLike)):
        raise bad("path", "open_bags", "a folder, a file or a list of files", path)
    path = Path(path)
    if path.is_dir():
        return _folder_files(path, skip, skipped)
    if not path.exists():
        raise AttnscopeError(f"{path} must be a folder or a file, got no such file.")
    if path.suffix.lower() in PICKLE_SUFFIXES:
        raise refusal_of_pickle(path)
    if path.suffix.lower() not in FORMAT_READERS:
        raise AttnscopeError(
            f"{path} must be a {', '.join(list(FORMAT_READERS)[:-1])} or .parquet file, got "
            f"{path.suffix or 'no ending'}; a table of one token per row is read by "
            "attnscope.estimators.bags.tables.read_table."
        )
    return [path]


def _folder_files(path: Path, skip: bool, skipped: dict[str, str]) -> list[Path]:
    inside = sorted(p for p in path.iterdir() if not p.name.startswith("."))
    files = [p for p in inside if p.suffix.lower() in FORMAT_READERS and p.is_file()]
    stems = {p.stem for p in files}
    for pickled in (p for p in inside if p.suffix.lower() in PICKLE_SUFFIXES):
        if pickled.stem in stems:
            continue  # the same bag in a form that can be read
        if not skip:
            raise refusal_of_pickle(pickled)
        skipped[str(pickled)] = str(refusal_of_pickle(pickled))
    if not files and not skipped:
        deeper = [
            p for p in inside if p.is_dir() and any(_has_known_suffix(q) for q in p.iterdir())
        ]
        hint = f"; try {deeper[0]}" if deeper else ""
        raise AttnscopeError(
            f"{path} must hold {', '.join(list(FORMAT_READERS)[:-1])} or .parquet files, got none{hint}."
        )
    return files


def _has_known_suffix(path: Path) -> bool:
    return path.suffix.lower() in FORMAT_READERS


def _file_entries(file: Path, keys: Keys) -> list[Entry]:
    with name_file_in_errors(file):
        return FORMAT_READERS[file.suffix.lower()][0](file, keys)


def _readable_entries(found: list[Entry], skipped: dict[str, str]) -> list[Entry]:
    """The entries that can be read and hold finite numbers; reads every bag."""
    kept = []
    bags = OpenBags(found)
    for i, entry in enumerate(found):
        try:
            bags[i]
            kept.append(entry)
        except AttnscopeError as error:
            skipped[entry.name] = str(error)
    return kept


def _unique_entries(found: list[Entry], skip: bool, skipped: dict[str, str]) -> list[Entry]:
    kept: dict[str, Entry] = {}
    for entry in found:
        first = kept.setdefault(entry.name, entry)
        if first is not entry:
            why = (
                f"the bag {entry.name} of open_bags must be in one file, got {first.path} and "
                f"{entry.path}."
            )
            if not skip:
                raise AttnscopeError(why)
            skipped[str(entry.path)] = why
    return list(kept.values())


def _equal_width_entries(
    found: list[Entry], skip: bool, skipped: dict[str, str]
) -> list[Entry]:
    """The entries with the most frequent width (the first one, if several are equally frequent)."""
    widths = [entry.shape[1] for entry in found]
    usual = max(widths, key=widths.count)
    kept = []
    for entry in found:
        if entry.shape[1] == usual:
            kept.append(entry)
            continue
        why = (
            f"bag {entry.name} of {entry.path} must have {usual} features as the others, got "
            f"{entry.shape[1]}."
        )
        if not skip:
            raise AttnscopeError(why)
        skipped[entry.name] = why
    return kept


def _warn_of_skipped(bags: OpenBags) -> OpenBags:
    if bags.skipped:
        some = "; ".join(list(bags.skipped.values())[:SHOWN_NAMES])
        more = (
            f"; and {len(bags.skipped) - SHOWN_NAMES} more"
            if len(bags.skipped) > SHOWN_NAMES
            else ""
        )
        warnings.warn(f"open_bags left out: {some}{more}", stacklevel=3)
    return bags
