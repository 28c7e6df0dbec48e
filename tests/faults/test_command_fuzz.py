"""Command lines at random: whatever is typed, every command answers with an exit code of 0, 1 or 2
and a sentence, without NaN in its JSON, in seconds.

A list is a working skeleton of the command with options added, taken away and given values of every
kind: wrong types, ends of ranges, huge numbers, names of files that are folders, devices, loops of
links or not there. In this process, seeded. Sizes that are legal are small, so that a call takes a
fraction of a second; what is legal and long (`explore`, most claims) is left out by name.
"""

import json
import os
import signal
import time
import warnings
import webbrowser
from typing import get_type_hints

import numpy as np
import pytest
import typer
from helpers import fake_claims as fake
from helpers.commands import run

import attnscope as at
from attnscope import reproduction
from attnscope.claims import registry
from attnscope.cli import app

QUICK = 10  # lists of each command in `make test`
LONG = 500  # in `make test-all`
HANG = 30.0  # seconds of CPU time, which the load of the machine does not change

SMALL = ("--dim", "20", "--length", "4")
SKELETONS = {
    "risk": SMALL,
    "curve": ("--alpha", "1,2"),
    "train": (*SMALL, "--steps", "20", "--runs", "2"),
    "tasks": (),
    "new": ("task", "MyTask", "--out", "{out}"),
    "check-plugin": (),
    "fit": (
        "{data}", "--out", "{out}/m.npz", "--loss", "mixture", "--alpha", "inf,1",
        "--n-starts", "1", "--gate", "linear",
    ),
    "predict": ("{model}", "{data}"),
    "locate": ("{model}", "{data}"),
    "sweep": ("{study}", "--store", "{out}/store", "--out", "{out}"),
    "reproduce": ("--out", "{out}/report"),
    "explore": ("--no-browser",),
    "claims": (),
    "show": ("slr-13",),
    "diff": ("{out}", "{out}"),
}  # fmt: skip
NUMBERS = (
    "0", "1", "2", "3", "-1", "-0", "1.5", "1e-300", "-1e-300", "1e300", "1e999", "nan", "inf",
    "-inf", "1e3", "0x10", "1_0", " 2", "\uff12", "2147483648", "9223372036854775808", "1" + "0" * 30,
    "1" + "0" * 400, "9" * 5000, "", "x", "1,2", "1:2", "0:1", "None", "True",
)  # fmt: skip
WORDS = (
    "erf", "softmax", "linear", "softplus", "single-location", "multi-location", "topics", "sphere",
    "manifold", "moments", "reduced", "full", "auto", "all", "cv", "cv+", "split", "bayes", "best",
    "task", "claim", "slr-13", "y", "bag", "", " ", "=", "a=", "=1", "dim=3", "dim=x", "relevant=3",
    "weights=sum", "os:system", ":", "..:x", "nothing.py:X", "{data}:X", "*", "[", "\0", "a\0b",
    "\u00e9\u4e2d", "-", "--", "x" * 300, "1,1,1", "inf,1", "nan,1", "0", "-1", "tcp://nowhere:1",
    "\udcff",
)  # fmt: skip
# none that could be written outside the test's own folder, whoever runs it: "/" is root's
PATHS = (
    "{data}", "{model}", "{study}", "{out}", "{out}/a.csv", "{out}/a.npz", "{out}/a.svg",
    "{out}/a.png", "{out}/a.parquet", "{out}/none/a.csv", "{out}/a.xyz", "{out}/loop.npz",
    "/dev/null", "/dev/full", "/dev/zero", "/proc", ".", "..", "", "\0", "x" * 300, "{out}/-a.csv",
    "{out}/full.csv", "{out}/zero.npz", "\udcff",
)  # fmt: skip
# legal and long, or of the network: the rest of the command is tried without
LEFT = {
    "explore": {"static"},  # tables of two minutes; tests/explorer/test_static_site.py
    "reproduce": {"only", "full", "workers", "scheduler"},
    "sweep": {"workers", "scheduler", "timeout"},
    "fit": {"jobs", "n_starts"},
    "curve": {"predictors", "ridge"},
}
# numbers that are legal and take long where they are large: of these, small and absurd ones
COSTLY = {
    "steps", "runs", "batch_size", "heads", "dim", "length", "components", "log_every",
}  # fmt: skip
ABSURD = ("0", "1", "2", "3", "-1", "1.5", "x", "", "1" + "0" * 30, "9" * 5000, "nan")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Good files to begin with, and a folder with traps."""
    folder = tmp_path_factory.mktemp("fuzz")
    batch = at.SingleLocation(dim=4, length=3, signal=5.0, noise=0.1).sample(30, seed=1)
    np.savez(folder / "data.npz", bags=batch.tokens, y=batch.target)
    study = 'function = "oracle_risk"\n[grid]\ndim = [10]\n[fixed]\nlength = 5\n'
    (folder / "study.toml").write_text(study)
    out = folder / "out"
    out.mkdir()
    (out / "loop.npz").symlink_to(out / "loop.npz")
    (out / "full.csv").symlink_to("/dev/full")
    (out / "zero.npz").symlink_to("/dev/zero")
    found = {name: folder / f"{name}.npz" for name in ("data", "model")}
    found |= {"study": folder / "study.toml", "out": out}
    words = [word.format(**found) for word in SKELETONS["fit"]]
    words[2] = str(found["model"])
    assert run("fit", *words)[0] == 0
    return found


def kinds_of(name):
    """Types of a command's options, as text."""
    hints = get_type_hints(shown_commands()[name].callback)
    return {key: str(kind) for key, kind in hints.items()}


def value(parameter, kinds, rng):
    """Something to type for this option."""
    kind = kinds.get(parameter.name, "str")
    if parameter.name in COSTLY and rng.random() < 0.9:
        return rng.choice(ABSURD)
    if "int" in kind or "float" in kind:
        pool = NUMBERS
    elif "Path" in kind:
        pool = PATHS
    else:
        pool = (*WORDS, *NUMBERS) if rng.random() < 0.3 else WORDS
    return pool[rng.integers(len(pool))]


def typed(name, command, rng):
    """One list of arguments."""
    words = list(SKELETONS[name])
    kinds = kinds_of(name)
    options = [p for p in command.params if p.name not in LEFT.get(name, ())]
    flags = [p for p in options if p.opts[0].startswith("-") and p.name != "help"]
    for _ in range(rng.integers(1, 4)):
        if not flags:
            break
        chosen = flags[rng.integers(len(flags))]
        words.append(chosen.opts[0])
        if not getattr(chosen, "is_flag", False):
            words.append(value(chosen, kinds, rng))
    if rng.random() < 0.2 and words:
        del words[rng.integers(len(words))]
    if rng.random() < 0.2:
        words.insert(int(rng.integers(len(words) + 1)), WORDS[rng.integers(len(WORDS))])
    arguments = [p for p in options if not p.opts[0].startswith("-")]
    if arguments and rng.random() < 0.4:
        place = int(rng.integers(len(arguments)))
        if place < len(words):
            words[place] = value(arguments[place], kinds, rng)
    return words


def filled(words, places):
    out = []
    for word in words:
        for name, path in places.items():
            word = word.replace("{" + name + "}", str(path))
        out.append(word)
    return out


class Hanging(BaseException):
    """A call that takes too long."""


def raise_hanging(*_):
    raise Hanging


def asks_json(words):
    """Whether --json stands where it is an option, not the value of one."""
    before = ["", *words]
    return any(w == "--json" and not b.startswith("--") for b, w in zip(before, words))


def check(name, words, out):
    """Run one list; what is wrong with the answer, "" if nothing."""
    began = time.process_time()
    try:
        code, printed, said = run(name, *words)
    except Hanging:
        return "hangs"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    if time.process_time() - began > HANG:
        return "hangs"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if code == 1 and name not in ("reproduce", "diff", "show", "sweep"):
        return f"exit code 1: {said}"
    if "Traceback" in said + printed:
        return said + printed
    if code == 2 and not said.strip():
        return "refused without a word"
    if code == 0 and asks_json(words) and "--help" not in words:
        try:
            json.loads(printed, parse_constant=lambda x: pytest.fail(f"{x} in JSON"))
        except ValueError as error:
            return f"no JSON: {error}"
    left = [x for x in os.listdir(out) if x.endswith((".tmp", ".part"))]
    return f"left {left}" if left else ""


def shown_commands():
    """The commands that `--help` lists, those of the explorer among them."""
    group = typer.main.get_command(app)
    context = typer.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if not command.hidden}


def tried(name, number, places, monkeypatch, seed):
    """Troubles of so many lists of a command."""
    from attnscope_explorer import app as page
    from attnscope_explorer.static_page import build

    monkeypatch.setattr(page, "serve", served)
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    # the plain files without what takes two minutes: their places are checked and written
    monkeypatch.setattr(build, "make_tables", lambda nodes: {})
    monkeypatch.setattr(build, "examples", lambda states: ({}, []))
    monkeypatch.setattr(build, "stored_draws", lambda states: {})
    # one claim that takes no time, in the place of all
    monkeypatch.setattr(reproduction, "selected_claims", lambda patterns: [fake.HOLDS])
    monkeypatch.setattr(registry, "listed_claims", lambda: fake.listed([fake.HOLDS]))
    monkeypatch.chdir(places["out"])
    command = shown_commands()[name]
    rng = np.random.default_rng([seed, sorted(SKELETONS).index(name)])
    before = signal.signal(signal.SIGPROF, raise_hanging)
    troubles = []
    try:
        for _ in range(number):
            words = filled(typed(name, command, rng), places)
            signal.setitimer(signal.ITIMER_PROF, HANG)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wrong = check(name, words, places["out"])
            signal.setitimer(signal.ITIMER_PROF, 0)
            if wrong:
                troubles.append((wrong[:300], [word[:60] for word in words]))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return troubles


def served(host="127.0.0.1", port=8050, open_browser=True):
    """The page's checks, without the page."""
    from attnscope.errors import bad

    if not 0 <= port <= 65535:
        raise bad("port", "explore", "a whole number from 0 to 65535", port)


@pytest.mark.parametrize("name", sorted(SKELETONS))
def test_some_command_lines_are_answered(name, places, monkeypatch):
    assert tried(name, QUICK, places, monkeypatch, seed=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SKELETONS))
def test_every_command_line_is_answered(name, places, monkeypatch):
    assert tried(name, LONG, places, monkeypatch, seed=2) == []


def test_every_command_has_a_skeleton():
    assert set(SKELETONS) == set(shown_commands())
