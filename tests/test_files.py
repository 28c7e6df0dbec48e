"""Files are whole or absent, and a disk that refuses is one sentence that says what is kept.

Every writer of the package goes through `files.whole_file`: each is tried with a disk that is full
at the writing, at the sync and at the rename, with Ctrl-C there, and with a folder that is gone.
"""

import errno
import os
import stat
import tempfile

import numpy as np
import pytest

import attnscope as at
from attnscope import files
from attnscope.cli.common import app
from attnscope.errors import AttnscopeError
from attnscope.estimators.bags.table_output import write_columns
from attnscope.figures.figure import Figure, Line, Panel
from attnscope.files import check_place, whole_file, writable_folder
from attnscope.report.folder import replace
from attnscope.sweeps.store import Store

FULL = OSError(errno.ENOSPC, "No space left on device")
X = np.arange(3.0)


def raising(error):
    def refuse(*_, **__):
        raise error

    return refuse


def plain(path):
    with whole_file(path, "test") as part:
        part.write_bytes(b"new")


@pytest.fixture(scope="module")
def run():
    task = at.SingleLocation(dim=8, length=3, gamma=0.5, noise=0.1)
    return at.train(task, at.Erf(0.3), runs=2, steps=4, log_every=2)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    bags = rng.standard_normal((60, 3, 2))
    return at.SingleLocationRegressor(n_starts=1).fit(bags, bags[:, 0, 0])


@pytest.fixture
def writers(run, model):
    """Everything that writes a file, by the file's ending."""
    drawing = Figure("", (Panel("", "", "", (Line(X, X),)),))
    return {
        "txt": plain,
        "run.npz": run.save,
        "model.npz": model.save,
        "columns.npz": lambda path: write_columns(path, {"x": X}),
        "columns.csv": lambda path: write_columns(path, {"x": X}),
        "svg": drawing.save,
        "png": drawing.save,
        "json": lambda path: replace(path, "new"),
    }


WRITERS = ["txt", "run.npz", "model.npz", "columns.npz", "columns.csv", "svg", "png", "json"]


def test_what_is_written_is_there_alone_and_replaces(tmp_path):
    path = tmp_path / "a.txt"
    for _ in range(2):
        plain(path)
        assert path.read_bytes() == b"new"
        assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("instant", ["fsync", "replace"])
@pytest.mark.parametrize("before", [True, False])
def test_a_full_disk_is_a_sentence_and_keeps_what_was_there(
    tmp_path, monkeypatch, writers, name, instant, before
):
    path = tmp_path / f"a.{name}"
    if before:
        path.write_bytes(b"precious")
    monkeypatch.setattr(os, instant, raising(FULL))
    with pytest.raises(
        AttnscopeError,
        match=r"^[^\n]* must be on a disk with space left, got [^\n]*(kept|written)[^\n]*$",
    ) as e:
        writers[name](path)
    assert "No space left on device" in str(e.value)
    assert ".tmp" not in str(e.value)  # the user's name of the file, not ours
    assert os.listdir(tmp_path) == ([path.name] if before else [])
    assert not before or path.read_bytes() == b"precious"


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("instant", ["fsync", "replace"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_any_exception_leaves_nothing_behind(
    tmp_path, monkeypatch, writers, name, instant, error
):
    path = tmp_path / f"a.{name}"
    path.write_bytes(b"precious")
    monkeypatch.setattr(os, instant, raising(error))
    with pytest.raises(error):
        writers[name](path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_fills_while_writing(tmp_path, writers, name):
    """A limit on the size of files makes the system itself refuse, in the middle of the writing."""
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    path = tmp_path / f"a.{name}"
    path.write_bytes(b"pr")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2, before[1]))
        with pytest.raises(
            AttnscopeError, match=r"^[^\n]* must be [^\n]*File too large[^\n]*$"
        ):
            writers[name](path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"pr"


@pytest.mark.parametrize("name", WRITERS)
def test_no_folder_and_no_permission_are_sentences(tmp_path, monkeypatch, writers, name):
    with pytest.raises(AttnscopeError, match=r"^[^\n]* must be .*folder[^\n]*got [^\n]*gone"):
        writers[name](tmp_path / "gone" / f"a.{name}")
    path = tmp_path / f"a.{name}"
    path.write_bytes(b"precious")
    # tests may run as root, whom no mode of a folder stops
    monkeypatch.setattr(
        files.os, "replace", raising(PermissionError(errno.EACCES, "Permission denied"))
    )
    with pytest.raises(
        AttnscopeError,
        match=r"^[^\n]* that can be written, got [^\n]*Permission denied[^\n]*try",
    ):
        writers[name](path)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="no mode stops the superuser")
def test_a_read_only_folder_and_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"precious")
    path.chmod(0o444)
    with pytest.raises(
        AttnscopeError, match=r"can be written, got .*the file that was there is kept"
    ):
        plain(path)
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(
            AttnscopeError, match=r"can be written, got .*nothing was written"
        ):
            plain(tmp_path / "b.txt")
    finally:
        tmp_path.chmod(0o755)
    assert path.read_bytes() == b"precious"


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"precious")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(
        AttnscopeError, match=r"can be written, got .*the file that was there is kept"
    ):
        plain(path)
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "a file that can be written, got .*directory"),
        ("{here}", "a file that can be written, got .*directory"),
        ("{here}/" + "x" * 300, "a file that can be written, got .*too long"),
        ("{here}/a\0b", "the name of a file, got"),
        (None, "the name of a file, got None"),
        (3, "the name of a file, got 3"),
    ],
)
def test_what_is_no_file_is_refused_before_any_work(tmp_path, path, words):
    place = path.format(here=tmp_path) if isinstance(path, str) else path
    for refuse in (plain, lambda p: check_place(p, "test")):
        with pytest.raises(AttnscopeError, match=f"^path of test must be {words}"):
            refuse(place)
    assert os.listdir(tmp_path) == []


def test_links_permissions_and_long_names_are_kept(tmp_path):
    real = tmp_path / "real.txt"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    plain(link)
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    long = tmp_path / ("é" * 120)
    plain(long)
    assert sorted(os.listdir(tmp_path)) == sorted([link.name, long.name, real.name])


def test_a_device_is_written_and_stays_a_device(tmp_path):
    plain(os.devnull)
    assert not stat.S_ISREG(os.stat(os.devnull).st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        plain(pipe)
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_synced_before_and_after_the_rename_and_only_if_asked(tmp_path, monkeypatch):
    events = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, name=name, real=real: (events.append(name), real(*a))
        )
    for sync in (True, False):
        with whole_file(tmp_path / "a", "test", sync=sync) as part:
            part.write_bytes(b"new")
        events.append("end")
    assert events == ["fsync", "replace", "fsync", "end", "replace", "end"]


def test_a_folder_is_made_and_found_writable(tmp_path, monkeypatch):
    refusal = lambda error: AttnscopeError(f"no: {error.strerror}")
    writable_folder(tmp_path / "a" / "b", refusal)
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(AttnscopeError, match="no: "):
        writable_folder(tmp_path / "file" / "b", refusal)


def test_the_store_keeps_its_words_and_leaves_nothing(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.prepare()
    record = {"rows": [], "seconds": 1.0}
    monkeypatch.setattr(os, "fsync", raising(FULL))
    with pytest.raises(
        AttnscopeError, match=r"is on a full disk .*; what was stored is kept"
    ):
        store.put("key", record)
    monkeypatch.setattr(os, "fsync", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        store.put("key", record)
    assert os.listdir(tmp_path) == []


def test_a_csv_of_the_command_line_is_packed_by_its_ending(tmp_path):
    import gzip

    from typer.testing import CliRunner

    from attnscope.cli import app

    out = tmp_path / "run.csv.gz"
    words = ["train", "--dim", "20", "--steps", "4", "--runs", "2", "--csv", str(out)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert gzip.decompress(out.read_bytes()).startswith(b"run,")
    assert os.listdir(tmp_path) == [out.name]


REFUSED = ["csv", "plot", "save"]


@pytest.mark.parametrize("refused", [[name] for name in REFUSED] + [REFUSED])
def test_a_refused_file_of_train_costs_no_other(tmp_path, monkeypatch, capsys, refused):
    """Every file is tried, what was found is printed, the refusals come together,
    and the run is somewhere.
    """
    endings = {"csv": "run.csv", "plot": "run.svg", "save": "run.npz"}
    paths = {name: tmp_path / ending for name, ending in endings.items()}
    whole = os.replace

    def full(source, target):
        if any(os.fspath(target) == os.fspath(paths[name]) for name in refused):
            raise FULL
        whole(source, target)

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    options = ["--runs", "2", "--steps", "4", "--dim", "12", "--length", "3"]
    options += [f"--{name}={path}" for name, path in paths.items()]
    with pytest.raises(AttnscopeError) as found:
        app(["train", *options], standalone_mode=False)
    assert "2 runs, 4 steps" in capsys.readouterr().out
    assert str(found.value).count("No space left on device") == len(refused)
    assert [name for name in REFUSED if not paths[name].exists()] == refused
    kept = list(tmp_path.glob("attnscope-*/run.npz"))
    assert ("save" in refused) == (len(kept) == 1)
    saved = kept[0] if kept else paths["save"]
    assert at.Trajectory.load(saved).runs == 2
    assert not kept or str(kept[0]) in str(found.value)
