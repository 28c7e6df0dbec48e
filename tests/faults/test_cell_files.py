"""Stored cells that were altered: the sweep computes them again or refuses in a sentence, and its
values are those of the sweep that nobody touched.

Three kinds. Bytes: cut, turned, overwritten, exchanged between cells; the checksum shows these.
Records: the checksum is made anew over a member that is left out, of another kind, a NaN, or of
another cell. Archives: the checksum is made anew over an npz that is none of ours. A number that is
exchanged for another number under a new checksum is a forgery that no reader can see: not tried.
"""

import hashlib
import io
import json
import os
import zipfile

import numpy as np
import pandas as pd
import pytest

from attnscope.errors import AttnscopeError
from attnscope.sweeps.run import dry_run, plan_cells, run, status
from attnscope.sweeps.store import pack, unpack

QUICK = 60  # alterations in `make test`, of more than 1,000
TURNED = 120  # alterations of bytes of each cell
GRID = {"x": [1, 2.5, 3, 4], "scale": [0.5]}
DIGEST = 64  # characters of the checksum at the end of a file
WRONG = (
    None, True, -1, -0.5, "", "altered", [], {}, [1], [[]], {"a": 1}, {"x": 99}, float("nan"),
    float("inf"), "nan", 10**400, [None], [{"y": [1]}],
)  # fmt: skip
NO_RESULTS = (float("nan"), [], [1.0], {}, {"a": 1}, [[None]], [float("nan")])
NESTED = b"[" * 100_000
MEMBERS = ("key", "function", "call", "rows", "seconds")


def mixed(x, scale, seed):
    """Two rows with results of every kind."""
    return [
        {
            "part": i,
            "y": scale * x + i,
            "draw": seed,
            "big": x > 2,
            "word": f"{x}",
            "no": None,
        }
        for i in range(2)
    ]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """The frame, and the files by name, of a sweep."""
    store = tmp_path_factory.mktemp("store")
    frame = run(mixed, GRID, store, progress=False).frame
    files = {f"{cell.key}.npz": b"" for cell in plan_cells(mixed, GRID)}
    return frame, {name: (store / name).read_bytes() for name in files}


def signed(body):
    return body + hashlib.sha256(body).hexdigest().encode()


def archive(content, name="record.npy", **changes):
    """A signed npz with these bytes as its member; changes are of zipfile's entry."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.comment = b"0" * DIGEST
        entry = zipfile.ZipInfo(name)
        for key, value in changes.items():
            setattr(entry, key, value)
        out.writestr(entry, content)
    return signed(file.getvalue()[:-DIGEST])


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=array.dtype.hasobject)
    return file.getvalue()


def bytes_altered(content, others, rng):
    """(what was done, bytes): what a disk, an editor or a copy may do."""
    yield "empty", b""
    yield "zeros", bytes(len(content))
    yield "longer", content + b" "
    yield "twice", content * 2
    yield "checksum of zeros", content[:-DIGEST] + b"0" * DIGEST
    yield "checksum in capitals", content[:-DIGEST] + content[-DIGEST:].upper()
    yield "without checksum", content[:-DIGEST]
    for other in others:
        yield "another cell's", other
        yield "another cell's checksum", content[:-DIGEST] + other[-DIGEST:]
        yield "another cell's body", other[:-DIGEST] + content[-DIGEST:]
    for i in range(TURNED):
        place = int(rng.integers(len(content)))
        if i % 3 == 0:
            yield f"cut at {place}", content[:place]
        elif i % 3 == 1:
            one = bytes([content[place] ^ 1 << int(rng.integers(8))])
            yield f"turned at {place}", content[:place] + one + content[place + 1 :]
        else:
            yield f"zeros from {place}", content[:place] + bytes(len(content) - place)


def records_altered(content, others):
    """(what was done, bytes) with a checksum that holds."""
    record = unpack(content)
    for name in MEMBERS:
        yield f"{name} left out", pack({k: v for k, v in record.items() if k != name})
        for value in WRONG:
            # other words in the place of the function's name change no value
            yield f"{name} {value!r:.40}", pack({**record, name: value})
    for i, row in enumerate(record["rows"]):
        for name in row:
            for value in NO_RESULTS:
                rows = list(record["rows"])
                rows[i] = {**row, name: value}
                yield f"{name} of row {i} {value!r}", pack({**record, "rows": rows})
        for value in WRONG[:-1]:
            if value != {} and value != {"a": 1}:  # of the form of a result: a forgery
                rows = list(record["rows"])
                rows[i] = value
                yield f"row {i} {value!r:.40}", pack({**record, "rows": rows})
    for other in map(unpack, others):
        yield "another cell's under this key", pack({**other, "key": record["key"]})
        yield "another cell's call", pack({**record, "call": other["call"]})


def archives_altered(content):
    """(what was done, bytes): signed, and no file of ours."""
    text = json.dumps(unpack(content)).encode()
    good = npy(np.frombuffer(text, dtype=np.uint8))
    length = f"({len(text)},)".encode()
    for shape in (
        b"(-1,)",
        b"(10**15,)",
        b"(999999999999,)",
        b"'x'",
        b"(1, 2)",
        b"((",
        b"()",
    ):
        padded = good.replace(length, shape.ljust(len(length)))
        yield f"shape {shape!r}", archive(padded)
    for kind in (b"|O1", b"<f8", b"<U9", b"|V1", b"<x4", b"|b1", b"<M8"):
        yield f"kind {kind!r}", archive(good.replace(b"|u1", kind))
    for place, value in ((0, 0), (6, 9), (8, 255), (8, 0), (10, 0)):
        turned = bytearray(good)
        turned[place] = value
        yield f"npy header {place}", archive(bytes(turned))
    yield "objects", archive(npy(np.array([{}, None], dtype=object)))
    yield "another member", archive(good, "other.npy")
    yield "no npy", archive(text, "record")
    yield "nested", archive(npy(np.frombuffer(NESTED, dtype=np.uint8)))
    for other in (
        b"",
        b"[]",
        b"null",
        b"7",
        b"{}",
        b"{",
        b"\xff\xfe",
        text + b"}",
        b"9" * 5000,
    ):
        yield f"text {other[:9]!r}", archive(npy(np.frombuffer(other, dtype=np.uint8)))
    yield "cut in the member", archive(good[:-9])
    for offset, value in ((10, 99), (8, 1), (42, 255), (24, 255), (20, 1), (16, 1)):
        # of the central directory: method, encrypted, place of the member, sizes, CRC
        turned = bytearray(archive(good)[:-DIGEST])
        turned[turned.rindex(b"PK\x01\x02") + offset] ^= value
        yield f"directory {offset}", signed(bytes(turned))
    yield "no zip", signed(b"PK")
    yield "nothing", signed(b"")


def altered(files):
    """(what was done, name of the file, bytes) for every alteration of every cell."""
    rng = np.random.default_rng(22)
    for name, content in files.items():
        others = [other for key, other in files.items() if key != name]
        for cases in (
            bytes_altered(content, others, rng),
            records_altered(content, others),
            archives_altered(content),
        ):
            for what, new in cases:
                yield what, name, new


def check(case, untouched, store):
    """True if the alteration was seen. The store is whole before and after."""
    what, name, content = case
    frame, files = untouched
    (store / name).write_bytes(content)
    now = status(mixed, GRID, store)
    plan = dry_run(mixed, GRID, store)
    assert now.done == plan.done and now.done + now.missing == now.cells == 4, what
    report = run(mixed, GRID, store, progress=False)
    pd.testing.assert_frame_equal(report.frame, frame, check_exact=True, obj=what)
    assert report.damaged == report.computed == now.missing <= 1, what
    if report.damaged:
        assert "truncated or altered" in report.troubles(), what
    (store / name).write_bytes(files[name])
    return report.damaged == 1


def whole_store(untouched, folder):
    for name, content in untouched[1].items():
        (folder / name).write_bytes(content)
    return folder


def test_an_altered_cell_is_computed_again(untouched, tmp_path):
    store = whole_store(untouched, tmp_path)
    cases = list(altered(untouched[1]))
    chosen = np.random.default_rng(23).choice(len(cases), QUICK, replace=False)
    seen = [check(cases[i], untouched, store) for i in chosen]
    assert sum(seen) > QUICK / 2  # the rest leave the values as they are


@pytest.mark.slow
def test_every_altered_cell_is_computed_again(untouched, tmp_path):
    store = whole_store(untouched, tmp_path)
    cases = list(altered(untouched[1]))
    assert len(cases) >= 1000
    unseen = [case for case in cases if not check(case, untouched, store)]
    print(f"{len(cases)} alterations, {len(cases) - len(unseen)} seen")
    # what may pass changes no value: the function's name, a time, a head around the same text
    for what, name, content in unseen:
        assert unpack(content)["rows"] == unpack(untouched[1][name])["rows"], what


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "loop"])
def test_what_is_no_file_is_a_sentence(kind, untouched, tmp_path):
    store = whole_store(untouched, tmp_path)
    place = store / next(iter(untouched[1]))
    place.unlink()
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero" if kind == "device" else place)
    for look in (status, dry_run, run):
        with pytest.raises(
            AttnscopeError, match=r"^store .* (must hold files|cannot be read)"
        ):
            look(mixed, GRID, store)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", NESTED, b'{"error": NaN}'])
def test_an_altered_account_of_a_failure_is_no_traceback(content, tmp_path):
    first = plan_cells(mixed, GRID)[0]
    (tmp_path / f"{first.key}.failed.json").write_bytes(content)
    now = status(mixed, GRID, tmp_path)
    assert (now.done, now.failed + now.missing) == (0, 4)
