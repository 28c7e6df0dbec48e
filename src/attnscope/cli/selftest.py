"""`attnscope selftest`: the adversary of the tests, on your machine."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Annotated, Any

import typer

from attnscope.cli.common import COLUMNS, Json, Seed, app, interruptible
from attnscope.cli.json_text import print_json
from attnscope.errors import AttnscopeError

SHOWN = 5  # failing settings printed per function; --json has all of them


@app.command("selftest")
def selftest_command(
    settings: Annotated[
        int, typer.Option(help="How many settings, spread over all functions.")
    ] = 500,
    only: Annotated[str, typer.Option(help="Only functions whose name contains this.")] = "",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Attack every public function at random settings:
    is each number within its stated error of a reference?
    """
    from attnscope.numerics.border.validation import seed_value
    from attnscope.progress import progress
    from attnscope.selftest.attack import all_subjects, attack, shares, summary

    seed_value(seed, "attnscope selftest")
    if settings < 1:
        raise AttnscopeError(
            f"--settings must be at least 1, got {settings}; try --settings 500."
        )
    subjects = [subject for subject in all_subjects() if only in subject.name]
    if not subjects:
        raise AttnscopeError(
            f"--only must be part of a function's name, got {only!r}; try --only risk."
        )
    total = sum(shares(subjects, settings))
    with interruptible(), progress(total, "settings", disable=as_json) as bar:
        outcomes = list(
            attack(subjects, settings, seed, lambda subject, number: bar.advance())
        )
    scores = summary(outcomes)
    if as_json:
        print_json([_plain_score(score) for score in scores])
    else:
        _print_scores(scores, outcomes, seed)
    raise typer.Exit(1 if any(score.troubles for score in scores) else 0)


def _plain_score(score: Any) -> dict[str, Any]:
    facts = {name: value for name, value in asdict(score).items() if name != "troubles"}
    return facts | {"troubles": [_plain_trouble(outcome) for outcome in score.troubles]}


def _plain_trouble(outcome: Any) -> dict[str, Any]:
    setting = {name: repr(value) for name, value in outcome.setting.items()}
    return {"number": outcome.number, "setting": setting, "trouble": outcome.trouble}


def _print_scores(scores: list[Any], outcomes: list[Any], seed: int) -> None:
    from attnscope.selftest.subject import FALSE_ALARM

    print(f"{'function':<44}{'settings':>9}{'judged':>7}{'refused':>8}{'worst':>10}")
    for score in scores:
        worst = f"{score.worst:>10.2g}"
        print(
            f"{score.subject[:43]:<44}{score.settings:>9}{score.judged:>7}{score.refused:>8}{worst}"
        )
    print("\nworst: the largest |difference| over what is allowed; above 1 it is wrong.")
    for score in scores:
        for outcome in score.troubles[:SHOWN]:
            where = f"{score.subject}, setting {outcome.number} of seed {seed}"
            print("\n" + textwrap.fill(f"{where}: {outcome.trouble}", COLUMNS))
            print(f"  {outcome.setting}")
    sampled = sum(outcome.sampled for outcome in outcomes)
    wrong = sum(len(score.troubles) for score in scores)
    print(
        f"\n{len(outcomes)} settings, {wrong} wrong; {sampled} of them sampled: chance of a"
    )
    print(
        f"false alarm {sampled * FALSE_ALARM:.1g}. Slowest call "
        f"{max(o.seconds for o in outcomes):.1f} s."
    )
