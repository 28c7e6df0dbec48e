"""`make stress`: every public function at random settings against references of its own.

Run from a checkout, `make stress ARGS="--settings 500 --only risk --seed 1 --json"`. Exit code 0 if
every number lies within its stated error of its reference, 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from dataclasses import asdict
from typing import Any

from attnscope.cli.json_text import print_json
from attnscope.progress import progress
from stress.attack import all_subjects, attack, shares, summary
from stress.subject import FALSE_ALARM

FAILURES_SHOWN = 5  # failing settings printed per function; --json has all of them
COLUMNS = 80


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make stress", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--settings", type=int, default=500, help="how many, over all functions"
    )
    parser.add_argument("--only", default="", help="functions whose name contains this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.settings < 1:
        parser.error(f"--settings must be at least 1, got {asked.settings}")
    if not 0 <= asked.seed < 2**63:
        parser.error(f"--seed must be an integer >= 0, got {asked.seed}")
    subjects = [subject for subject in all_subjects() if asked.only in subject.name]
    if not subjects:
        parser.error(f"no function's name contains {asked.only!r}; try --only risk")
    total = sum(shares(subjects, asked.settings))
    with progress(total, "settings", disable=asked.json) as bar:
        outcomes = list(
            attack(subjects, asked.settings, asked.seed, lambda *_: bar.advance())
        )
    scores = summary(outcomes)
    if asked.json:
        print_json([_score_record(score) for score in scores])
    else:
        _print_scores(scores, outcomes, asked.seed)
    return 1 if any(score.troubles for score in scores) else 0


def _score_record(score: Any) -> dict[str, Any]:
    facts = {name: value for name, value in asdict(score).items() if name != "troubles"}
    return facts | {"troubles": [_trouble_record(outcome) for outcome in score.troubles]}


def _trouble_record(outcome: Any) -> dict[str, Any]:
    setting = {name: repr(value) for name, value in outcome.setting.items()}
    return {"number": outcome.number, "setting": setting, "trouble": outcome.trouble}


def _print_scores(scores: list[Any], outcomes: list[Any], seed: int) -> None:
    print(f"{'function':<44}{'settings':>9}{'judged':>7}{'refused':>8}{'worst':>10}")
    for score in scores:
        counts = f"{score.settings:>9}{score.judged:>7}{score.refused:>8}"
        print(f"{score.subject[:43]:<44}{counts}{score.worst:>10.2g}")
    print("\nworst: the largest |difference| over what is allowed; above 1 it is wrong.")
    for score in scores:
        for outcome in score.troubles[:FAILURES_SHOWN]:
            where = f"{score.subject}, setting {outcome.number} of seed {seed}"
            print("\n" + textwrap.fill(f"{where}: {outcome.trouble}", COLUMNS))
            print(f"  {outcome.setting}")
    sampled = sum(outcome.sampled for outcome in outcomes)
    wrong = sum(len(score.troubles) for score in scores)
    print(
        f"\n{len(outcomes)} settings, {wrong} wrong; {sampled} of them sampled: chance of a"
    )
    slowest = max(outcome.seconds for outcome in outcomes)
    print(f"false alarm {sampled * FALSE_ALARM:.1g}. Slowest call {slowest:.1f} s.")


if __name__ == "__main__":
    sys.exit(main())
