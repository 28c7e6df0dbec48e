"""The sweep: expand a grid, reuse what is stored, compute the rest, return one tidy frame.

`sweep` is what users call; `run` is the same with the full account (`Report`); `status` and
`dry_run` only look.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from attnscope.errors import AttnscopeError, bad
from attnscope.progress import Bar
from attnscope.progress import progress as progress_bar
from attnscope.sweeps.cell_locks import CellLocks
from attnscope.sweeps.execute import CellResult, Task, Where, check_where, execute
from attnscope.sweeps.grid import Grid, Product, accepts_seed, check_fits, expand
from attnscope.sweeps.key import Cell, identity, make_cell, name_of, product_keys, unbound
from attnscope.sweeps.progress_lines import Failure, Plan, Report, Status
from attnscope.sweeps.rows import Row, checked_call, count_undefined, to_frame
from attnscope.sweeps.source import Fingerprint, fingerprint
from attnscope.sweeps.store import Store
from attnscope.sweeps.text import canonical

if TYPE_CHECKING:
    import pandas

__all__ = [
    "Failure",
    "Plan",
    "Report",
    "Status",
    "dry_run",
    "plan_cells",
    "run",
    "status",
    "sweep",
]

Folder = str | os.PathLike[str]
Depends = Sequence[str | os.PathLike[str]]

KEYS_PER_UPDATE = 2**14  # keys between two looks at the bar: some 20 ms
POLL_SECONDS = 0.25  # seconds between two looks at what another sweep is computing


def sweep(
    function: Callable[..., Any],
    grid: Grid,
    store: Folder = "runs/",
    workers: int | None = None,
    scheduler: str | None = None,
    *,
    seed: int = 0,
    version: str = "",
    depends: Depends = (),
    accept_code: bool = False,
    timeout: float | None = None,
    progress: bool = True,
) -> pandas.DataFrame:
    """Call `function` on every cell of `grid` and return one row per result, in grid order.

    Args:
        function: called as function(**parameters, seed=int), with the seed only if it takes one;
            returns a flat dict of numbers, strings and bools, or a list of such dicts (several
            rows).
        grid: dict of lists (their product) or list of dicts (the cells).
        store: folder of results; a cell found there is not computed again, so the same call
            resumes.
        workers: None runs here, N in N processes.
        scheduler: the address of a running Dask cluster.
        seed: of the sweep; a cell that takes a seed gets its own, derived from this one.
        version: any text that belongs to what is computed; change it with what the code does not
            show.
        depends: paths of files and folders whose contents belong to what is computed.
        accept_code: keep the stored cells of this function although its code or a package has
            changed since.
        timeout: seconds after which a cell is ended and counts as failed; needs workers or a
            scheduler.
        progress: show a bar on stderr if that is a terminal.

    Several calls may work on one store at a time, here or on other machines: they share the cells.
    Failed cells are left out of the frame and named in a warning; if every cell fails, that is an
    error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as store:
    ...     frame = sweep(lambda x, scale: {"area": scale * x * x}, {"x": [1, 2], "scale": [1.0, 0.5]}, store)
    >>> frame["area"].tolist()
    [1.0, 0.5, 4.0, 2.0]
    """
    report = run(
        function,
        grid,
        store,
        workers,
        scheduler,
        seed=seed,
        version=version,
        depends=depends,
        accept_code=accept_code,
        timeout=timeout,
        progress=progress,
    )
    if report.troubles():
        warnings.warn(report.troubles(), stacklevel=2)
    return report.frame


def run(
    function: Callable[..., Any], grid: Grid, store: Folder = "runs/",
    workers: int | None = None, scheduler: str | None = None,
    *, seed: int = 0, version: str = "", depends: Depends = (), accept_code: bool = False,
    timeout: float | None = None, progress: bool = True,
) -> Report:  # fmt: skip
    """`sweep`, with the account of what was computed, reused, damaged and failed."""
    start = time.perf_counter()
    where = Where(workers, scheduler, timeout)
    check_where(function, where)
    code = _code_of(function, version, depends)
    cells = plan_cells(function, grid, seed, version, code=code)
    work = _Work(function, version, code, cells, Store(store))
    work.place.prepare()
    work.load()
    if accept_code:
        work.accept()
    description = (
        f"sweep ({len(work.rows)} of {len(work.unique)} cells stored)"
        if work.rows
        else "sweep"
    )
    try:
        with progress_bar(
            len(work.unique) - len(work.rows), description, disable=not progress
        ) as bar:
            work.compute(bar, where)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; {len(work.rows)} of {len(work.unique)} cells are stored in "
            f"{work.place.folder}: "
            "run the same sweep again to resume."
        ) from None
    return work.report(time.perf_counter() - start)


def plan_cells(
    function: Callable[..., Any],
    grid: Grid,
    seed: int = 0,
    version: str = "",
    depends: Depends = (),
    code: Fingerprint | None = None,
) -> list[Cell]:
    """The cells of a sweep in grid order: key, parameters, and the exact call (with the derived
    seed).

    code: the fingerprint of the code, if it is known already.
    """
    parameters = expand(grid)
    naming = _key_parts(function, parameters, seed, version, depends, code)
    return [make_cell(function, one, *naming) for one in parameters]


def _key_parts(
    function: Callable[..., Any],
    parameters: Sequence[dict[str, Any]],
    seed: int,
    version: str,
    depends: Depends = (),
    code: Fingerprint | None = None,
) -> tuple[int | None, str, str]:
    """Check everything; what keys have in common: sweep seed, version, hash of the code."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise bad("seed", "sweep", "a whole number", seed, "seed=0")
    code = code or _code_of(function, version, depends)
    check_fits(function, parameters)
    sweep_seed = seed if accepts_seed(function) else None
    return sweep_seed, version, code.hash


def _code_of(function: Callable[..., Any], version: str, depends: Depends) -> Fingerprint:
    if not isinstance(version, str):
        raise bad("version", "sweep", "a string", version, 'version="2"')
    return fingerprint(unbound(function), version, depends)


class _Work:
    """One sweep under way: rows and failures by key."""

    def __init__(
        self,
        function: Callable[..., Any],
        version: str,
        code: Fingerprint,
        cells: list[Cell],
        place: Store,
    ) -> None:
        self.function = function
        self.version = version
        self.code = code
        self.cells = cells
        self.place = place
        self.unique = {cell.key: cell for cell in cells}
        self.rows: dict[str, list[Row]] = {}
        self.failures: dict[str, Failure] = {}
        self.computed = self.damaged = 0

    def load(self) -> None:
        for key in self.unique:
            self.look_up(key)
        self.damaged = len(self.place.damaged)

    def accept(self) -> None:
        """Keep what the same calls gave with other code, the newest of several."""
        missing = [key for key in self.unique if key not in self.rows]
        own = [identity(self.function), self.version]
        wanted = {canonical([*own, self.unique[key].call]): key for key in missing}
        for other in sorted(self.place.keys() - self.unique.keys(), key=self.place.written):
            record = self.place.get(other) if wanted else None
            if record is not None:
                same = [record.get(name) for name in ("identity", "version", "call")]
                if key := wanted.get(canonical(same)):
                    self.place.put(key, record)
                    self.rows[key] = record["rows"]

    def look_up(self, key: str) -> bool:
        record = self.place.get(key, self.unique[key].parameters)
        if record is not None:
            self.rows[key] = record["rows"]
        return record is not None

    def compute(self, bar: Bar, where: Where) -> None:
        missing = [key for key in self.unique if key not in self.rows]
        function = partial(checked_call, self.function, self.code)
        # without a cell to compute no worker is started, no cluster reached
        with CellLocks(self.place.folder) as claims:
            while missing:
                others: list[str] = []
                tasks = self.tasks(missing, others, claims, bar)
                with closing(execute(function, tasks, where)) as outcomes:
                    for key, outcome in outcomes:
                        self.keep(self.unique[key], outcome)
                        claims.release(key)
                        bar.advance()
                # only now, with nothing of ours under way that others might wait for
                missing = others
                while missing and not any(self.settled(key, claims) for key in missing):
                    time.sleep(POLL_SECONDS)

    def tasks(
        self, missing: list[str], others: list[str], claims: CellLocks, bar: Bar
    ) -> Iterator[Task]:
        """The calls to make, asked for one by one: another sweep may have stored a cell in the
        meantime. What another sweep is computing is left in `others`.
        """
        for key in missing:
            if self.look_up(key):
                bar.advance()
            elif not claims.take(key):
                others.append(key)
            elif self.look_up(key):  # stored between the look and the claim
                claims.release(key)
                bar.advance()
            else:
                yield key, self.unique[key].call

    def settled(self, key: str, claims: CellLocks) -> bool:
        """Whether the other sweep is done with the cell, or is no more."""
        return self.place.holds(key) or claims.is_stale(key)

    def keep(self, cell: Cell, outcome: CellResult) -> None:
        account = {
            "function": name_of(self.function),
            "identity": identity(self.function),
            "version": self.version,
            "call": cell.call,
            "seconds": outcome.seconds,
        }
        if outcome.error:
            account |= {"error": outcome.error, "traceback": outcome.traceback}
            self.place.put_failure(cell.key, account)
            self.failures[cell.key] = _failure(self.place, cell.key, cell.parameters, account)
        else:
            self.place.put(cell.key, {**account, "rows": outcome.value})
            self.rows[cell.key] = outcome.value
            self.computed += 1

    def report(self, seconds: float) -> Report:
        failures = tuple(self.failures.values())
        if not self.rows:
            raise AttnscopeError(
                f"all {len(self.unique)} cells of sweep failed, the first with: "
                f"{failures[0].error} "
                f"(at {failures[0].parameters}, traceback in {failures[0].file})."
            )
        return Report(
            frame=to_frame(self.cells, self.rows),
            cells=len(self.unique),
            computed=self.computed,
            reused=len(self.rows) - self.computed,
            damaged=self.damaged,
            failures=failures,
            undefined=count_undefined(self.rows.values()),
            seconds=seconds,
            has_older=self.computed > 0 and self.place.has_older(name_of(self.function)),
        )


def _failure(
    place: Store, key: str, parameters: dict[str, Any], account: dict[str, Any]
) -> Failure:
    error, traceback = str(account.get("error")), str(account.get("traceback"))
    return Failure(parameters, error, traceback, place.failure_file(key))


def status(
    function: Callable[..., Any],
    grid: Grid,
    store: Folder = "runs/",
    *,
    seed: int = 0,
    version: str = "",
    depends: Depends = (),
    progress: bool = False,
) -> Status:
    """How many cells of the sweep are done, failed and missing,
    from the store alone (nothing is written).
    """
    place = Store(store)
    results = place.keys()
    accounts = place.failed_keys()
    planned = expand(grid)
    naming = _key_parts(function, planned, seed, version, depends)
    found = _stored_results(function, planned, naming, results | accounts, progress)
    done = 0
    failures = []
    with progress_bar(len(found.cells), "stored cells read", disable=not progress) as bar:
        for key, parameters in found.cells.items():
            bar.advance()
            if key in results and place.get(key, parameters) is not None:
                done += 1
            elif key in accounts and (account := place.failure(key)) is not None:
                failures.append(_failure(place, key, parameters, account))
    failed = len(failures)
    return Status(found.number, done, failed, found.number - done - failed, tuple(failures))


def dry_run(
    function: Callable[..., Any],
    grid: Grid,
    store: Folder = "runs/",
    workers: int | None = None,
    *,
    seed: int = 0,
    version: str = "",
    depends: Depends = (),
    progress: bool = False,
) -> Plan:
    """What the sweep would compute, and the time it should take: mean stored duration x cells /
    workers.

    Durations come from this sweep's own stored cells, else from any stored cell of the same
    function.
    """
    place = Store(store)
    planned = expand(grid)
    naming = _key_parts(function, planned, seed, version, depends)
    found = _stored_results(function, planned, naming, place.keys(), progress)
    records = (place.get(key, parameters) for key, parameters in found.cells.items())
    own = [float(r["seconds"]) for r in records if r is not None]
    durations = own or place.durations(name_of(function))
    todo = found.number - len(own)
    mean = sum(durations) / len(durations) if durations else None
    seconds = None if mean is None else mean * todo / min(workers or 1, max(todo, 1))
    return Plan(found.number, len(own), todo, seconds, len(durations))


class _StoredResults(NamedTuple):
    """The number of cells of a grid, and those with a file: parameters by key."""

    number: int
    cells: dict[str, dict[str, Any]]


def _stored_results(
    function: Callable[..., Any],
    parameters: Sequence[dict[str, Any]],
    naming: tuple[int | None, str, str],
    stored: set[str],
    progress: bool,
) -> _StoredResults:
    """Which cells of the grid are among the stored keys; memory grows with these alone where the
    grid is a product, and with an empty store not even its keys are made.
    """
    if not isinstance(parameters, Product):
        keys = {make_cell(function, one, *naming).key: one for one in parameters}
        return _StoredResults(
            len(keys), {key: one for key, one in keys.items() if key in stored}
        )
    cells: dict[str, dict[str, Any]] = {}
    if stored:
        size = len(parameters)
        with progress_bar(size, "cells looked up", disable=not progress) as bar:
            for i, key in enumerate(product_keys(function, parameters.axes, *naming)):
                if key in stored:
                    cells[key] = parameters[i]
                if i % KEYS_PER_UPDATE == 0:
                    bar.show("cells looked up", i)
    return _StoredResults(parameters.distinct(), cells)
