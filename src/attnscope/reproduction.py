"""The main job: run the claims, say what came of each, write the report.

Claims run in this process, in worker processes or on a Dask cluster (`attnscope.sweeps.execute`);
what travels is a claim's id, what comes back its verdict and its drawn figure. A check depends on
the seed alone, so neither order nor number of workers changes a result. Every verdict is written as
it lands: a run that is stopped keeps what it has.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from attnscope import plugins
from attnscope.claims.claim import Claim
from attnscope.claims.registry import selected_claims
from attnscope.claims.verdict import REGISTRY, Verdict, broken_off, run_named
from attnscope.claims.verdict_table import Verdicts
from attnscope.errors import AttnscopeError
from attnscope.numerics.border.validation import seed_value
from attnscope.optional import needs
from attnscope.report.folder import prepare, replace
from attnscope.report.states import short_id
from attnscope.report.steps import TourStep
from attnscope.report.terminal import Display, display, summary
from attnscope.sweeps.execute import CellResult, Where, check_workers, execute

__all__ = ["NotWritten", "exit_code", "reason_without_step", "reproduce", "tour_steps"]


class NotWritten(AttnscopeError):
    """The report could not be written; `verdicts` has what was computed."""

    def __init__(self, sentence: str, verdicts: list[Verdict]) -> None:
        super().__init__(sentence)
        self.verdicts = verdicts


def reproduce(
    only: str | Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    seed: int = 0,
    full: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
    site: bool = False,
) -> Verdicts:
    """Check the claims and return their verdicts, a list sorted by id (a table in a notebook).

    Args:
        only: patterns of ids ("slr-*"); all claims if None.
        out: folder for index.html, verdicts.json and figures/ID.csv; nothing is written if None.
        seed: of every random number; the same seed gives the same report, apart from times.
        full: larger sizes and more runs.
        workers: None runs here, N in N processes.
        scheduler: the address of a running Dask cluster.
        progress: a live table on a terminal, a line per verdict elsewhere; False is silent.
        site: the explorer's plain files lie at ../explorer; claims link to the steps of its tours.

    >>> import attnscope as at
    >>> [found] = at.reproduce("slr-01*", progress=False)
    >>> found.id, found.holds
    ('slr-01-attention-reduces', True)
    """
    patterns = [only] if isinstance(only, str) else list(only or ())
    run = Run(selected_claims(patterns), seed_value(seed, "reproduce"), bool(full), patterns)
    run.site = bool(site)
    return Verdicts(run.through(out, workers, scheduler, progress))


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """0 if every verdict is as expected or skipped, 1 otherwise."""
    return 0 if all(verdict.as_expected for verdict in verdicts) else 1


def tour_steps(claim_id: str) -> list[TourStep]:
    """The steps of tours that show a claim, from the packages that have tours (plugins.py).

    >>> tour_steps("slr-13-swapped-beats-oracle")[0].tour
    'swapped-runs'
    """
    found = [steps.get(short_id(claim_id), ()) for steps, _ in _tours()]
    return [TourStep(*step) for steps in found for step in steps]


def reason_without_step(claim_id: str) -> str:
    """Why no tour shows the claim, where that was said; "" elsewhere."""
    found = [reasons.get(short_id(claim_id), "") for _, reasons in _tours()]
    return next(filter(None, found), "")


def _tours() -> list[tuple[dict[str, Any], dict[str, str]]]:
    """steps_of_claims() and CLAIMS_WITHOUT_STEP of every package; a plugin whose tours cannot be loaded
    has none.
    """
    found = []
    for point in plugins.announced(plugins.TOURS):
        with suppress(AttnscopeError), point.guarded("a module of tours"):
            tours = point.load()
            found.append((dict(tours.steps_of_claims()), dict(tours.CLAIMS_WITHOUT_STEP)))
    return found


def run_and_draw(
    claim_id: str, seed: int, full: bool, registry: str, pictures: bool
) -> tuple[Verdict, Any]:
    """What a worker does: the verdict on a claim,
    and its figure drawn (drawing takes as long as many a check).
    """
    verdict = run_named(claim_id, seed, full, registry)
    if not pictures or verdict.figure is None:
        return verdict, None
    from attnscope.report.drawing import draw

    return verdict, draw(verdict.figure, verdict.id)


@dataclass
class Run:
    """Claims under way, and what has landed, by id."""

    claims: list[Claim]
    seed: int
    full: bool = False
    patterns: Sequence[str] = ()
    registry: str = REGISTRY
    site: bool = False
    landed: dict[str, Verdict] = field(default_factory=dict)
    drawn: dict[str, Any] = field(default_factory=dict)

    @property
    def verdicts(self) -> list[Verdict]:
        """In the order of the claims, whatever the order of landing."""
        return [self.landed[claim.id] for claim in self.claims if claim.id in self.landed]

    def through(
        self,
        out: Any = None,
        workers: int | None = None,
        scheduler: str | None = None,
        progress: bool = True,
    ) -> list[Verdict]:
        """Run all claims; write what landed even if stopped."""
        start = time.perf_counter()
        check_workers(workers, "reproduce")
        if out is not None:
            for package in ("matplotlib", "jinja2"):
                needs(package, "the report of reproduce")
        folder = None if out is None else prepare(out)
        try:
            with display(
                self.claims,
                workers or (1 if scheduler is None else len(self.claims)),
                progress,
            ) as screen:
                self.compute(folder, workers, scheduler, screen)
        except KeyboardInterrupt:
            self.write(folder)
            kept = f" and kept in {folder}" if folder and self.landed else ""
            done = f"{len(self.landed)} of {len(self.claims)} claims"
            raise KeyboardInterrupt(f"stopped; {done} are checked{kept}.") from None
        except AttnscopeError:  # the cluster is gone, a worker cannot start
            self.write(folder)
            raise
        self.write(folder)
        if progress:
            print(summary(self.verdicts, time.perf_counter() - start))
            if folder is not None:
                print(f"report: {folder / 'index.html'}")
        return self.verdicts

    def compute(
        self, folder: Path | None, workers: int | None, scheduler: str | None, screen: Display
    ) -> None:
        by_id = {claim.id: claim for claim in self.claims}
        with closing(
            execute(run_and_draw, self.tasks(screen, folder), Where(workers, scheduler))
        ) as outcomes:
            for name, outcome in outcomes:
                verdict = self.keep(by_id[name], outcome)
                screen.landed(verdict)
                self.save(folder, screen)

    def tasks(
        self, screen: Display, folder: Path | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for claim in self.claims:
            screen.started(claim)
            call = {"claim_id": claim.id, "seed": self.seed, "full": self.full}
            yield (
                claim.id,
                {**call, "registry": self.registry, "pictures": folder is not None},
            )

    def keep(self, claim: Claim, outcome: CellResult) -> Verdict:
        if outcome.error:  # the check ended its process, or the process its life
            row = import_module(self.registry).listed_claims().claims[claim.id]
            verdict = broken_off(claim, outcome.error, outcome.seconds, row.origin)
            picture = None
        else:
            verdict, picture = outcome.value
        self.landed[claim.id], self.drawn[claim.id] = verdict, picture
        return verdict

    def save(self, folder: Path | None, screen: Display) -> None:
        """Write the verdicts so far. A disk that is full now may not be later: the run goes on."""
        if folder is None:
            return
        from attnscope.report.build import verdicts_json

        try:
            replace(
                folder / "verdicts.json", verdicts_json(self.verdicts, self.seed, _version())
            )
        except AttnscopeError as error:
            screen.say(f"not written yet: {error}")

    def write(self, folder: Path | None) -> None:
        """Write the report on what has landed; without any, the report of an earlier run stays."""
        if folder is None or not self.landed:
            return
        from attnscope.report.build import write_report

        unchecked = len(self.claims) - len(self.landed)
        try:
            write_report(
                self.verdicts,
                folder,
                self.seed,
                _version(),
                self.command(),
                self.drawn,
                unchecked,
                {claim.id: tour_steps(claim.id) for claim in self.claims},
                self.site,
            )
        except AttnscopeError as error:
            raise NotWritten(str(error), self.verdicts) from None

    def command(self) -> str:
        """The line that makes this report again; where it ran and where to is not part of it."""
        only = [part for pattern in self.patterns for part in ("--only", pattern)]
        full = ["--full"] if self.full else []
        return shlex.join(
            [
                "attnscope",
                "reproduce",
                *only,
                *full,
                "--seed",
                str(self.seed),
                "--out",
                "report",
            ]
        )


def _version() -> str:
    from attnscope import __version__

    return __version__
