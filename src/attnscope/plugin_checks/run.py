"""`check_plugin`: every entry point of a distribution, kind by kind."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.metadata import EntryPoint as MetadataPoint

from attnscope import plugins
from attnscope.errors import AttnscopeError
from attnscope.numerics.border import validation as check
from attnscope.plugin_checks.record import FAILS, CheckRecord, checks
from attnscope.progress import progress as progress_bar

__all__ = ["check_plugin", "plugin_names"]

OWN = "attnscope"  # the distribution that is not a plugin
GROUPS = (
    plugins.TASKS,
    plugins.PREDICTORS,
    plugins.PAPERS,
    plugins.CLAIMS,
    plugins.COMMANDS,
    plugins.TOURS,
)
LARGEST_SETTINGS = 1000  # some minutes a task


def check_plugin(
    name: str | None = None,
    settings: int = 5,
    taken_commands: Collection[str] = (),
    progress: bool = False,
) -> list[CheckRecord]:
    """Check everything that an installed plugin announces.

    Args:
        name: of the distribution, as pip knows it; every installed plugin if None.
        settings: random settings of each task and predictor, beside its defaults.
        taken_commands: names of commands that a plugin must not have.
        progress: a bar on stderr if that is a terminal.

    Returns:
        A CheckRecord for each check of each entry point; a thing's checks end with the first that
        fails. `[r for r in check_plugin("my-plugin") if r.verdict == "fails"]` is what is wrong.

    >>> check_plugin("no-such-plugin")
    Traceback (most recent call last):
    ...
    attnscope.errors.AttnscopeError: no installed package 'no-such-plugin' announces anything for attnscope.
    """
    settings = check.integer(settings, "settings", "check_plugin", 0, LARGEST_SETTINGS)
    installed = plugin_names()
    if name is None:
        chosen = [known for known in installed if known != OWN]
    else:
        chosen = [known for known in installed if known == plugins.normalised_name(name)]
        if not chosen:
            raise AttnscopeError(
                f"no installed package {name!r} announces anything for attnscope."
            )
    found: list[CheckRecord] = []
    points = [point for known in chosen for point in _points_of(known)]
    with progress_bar(len(points), "checking", disable=not progress) as bar:
        for i, point in enumerate(points):
            bar.show(point.name, i)
            for record in _records(point, settings, taken_commands):
                bar.show(f"{record.name}: {record.checked}", i)
                found.append(record)
            bar.show(point.name, i + 1)
    return [*found, *(record for known in chosen for record in _unknown_groups(known))]


def plugin_names() -> list[str]:
    """The distributions with an entry point of attnscope, attnscope included."""
    return sorted(_metadata_points())


def _metadata_points() -> dict[str, list[tuple[str, MetadataPoint]]]:
    """(origin, entry point) of every group whose name begins with attnscope's, by distribution."""
    found: dict[str, list[tuple[str, MetadataPoint]]] = {}
    for origin, point in plugins.metadata_points():
        found.setdefault(plugins.normalised_name(origin.split()[0]), []).append(
            (origin, point)
        )
    return found


def _points_of(name: str) -> list[plugins.EntryPoint]:
    """What a distribution announces: papers before claims, which name them."""
    return [
        point
        for group in GROUPS
        for point in plugins.announced(group, odd_names=True)
        if plugins.normalised_name(point.origin.split()[0]) == name
    ]


def _unknown_groups(name: str) -> list[CheckRecord]:
    """A record of each entry point in a group that nothing reads: a group with a typing error."""
    known = ", ".join(GROUPS)
    return [
        CheckRecord(
            origin,
            point.group,
            point.name,
            "its group exists",
            FAILS,
            None,
            f"{point.group} is no group of entry points of attnscope; these are: {known}.",
        )
        for origin, point in _metadata_points()[name]
        if point.group not in GROUPS
    ]


def _records(
    point: plugins.EntryPoint, settings: int, taken_commands: Collection[str]
) -> Iterator[CheckRecord]:
    """The records of one entry point, as they are found."""
    if point.group == plugins.TASKS:
        from attnscope.plugin_checks.task_checks import task_records

        yield from task_records(point, settings)
    elif point.group == plugins.PREDICTORS:
        from attnscope.plugin_checks.predictor_checks import predictor_records

        yield from predictor_records(point, settings)
    elif point.group == plugins.CLAIMS:
        yield from _claims_of(point)
    elif point.group == plugins.PAPERS:
        from attnscope.plugin_checks.paper_checks import paper_records

        yield from paper_records(point)
    elif point.group == plugins.COMMANDS:
        from attnscope.plugin_checks.command_checks import command_records

        yield from command_records(point, taken_commands)
    else:
        yield from checks(
            point.origin, "tours", point.name, [("loads", lambda: _load(point))]
        )


def _load(point: plugins.EntryPoint) -> None:
    point.load()


def _claims_of(point: plugins.EntryPoint) -> Iterator[CheckRecord]:
    """The claims of a distribution, with its first entry point of claims."""
    from attnscope.claims.registry import listed_claims
    from attnscope.plugin_checks.claim_checks import claim_records, claims_entry_records

    yield from claims_entry_records(point)
    own = [p for p in plugins.announced(plugins.CLAIMS) if p.origin == point.origin]
    if point == own[0]:
        for name, row in listed_claims().claims.items():
            if row.origin == point.origin:
                yield from claim_records(name, row)
