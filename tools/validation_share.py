"""How much of a claim's work is the checking of arguments.

Runs a claim under cProfile and prints, of all Python and C calls, the share that are calls of
functions defined in the validation module (attnscope.numerics.border.validation).

    python tools/validation_share.py slr-13 slr-03

Imports, compilation caches and file writing are outside: only `claim.check` is profiled, after one
unprofiled import of its module. Counts do not depend on the machine's speed.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from typing import NamedTuple

from attnscope.claims.claim import Claim, Context
from attnscope.claims.registry import selected_claims
from attnscope.numerics.border import validation


class Share(NamedTuple):
    """Calls of the validation module's functions and all calls;
    total counts recursion, primitive does not.
    """

    checks: int
    calls: int
    primitive_checks: int
    primitive_calls: int


def validation_share(claim: Claim, seed: int = 0) -> tuple[Share, pstats.Stats]:
    profile = cProfile.Profile()
    profile.runcall(claim.check, Context(seed))
    stats = pstats.Stats(profile)
    rows = stats.stats  # type: ignore[attr-defined]
    ours = [row for (file, _, _), row in rows.items() if file == validation.__file__]
    share = Share(
        sum(row[1] for row in ours),
        sum(row[1] for row in rows.values()),
        sum(row[0] for row in ours),
        sum(row[0] for row in rows.values()),
    )
    return share, stats


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("claims", nargs="+", help="beginnings of ids, such as slr-13")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--callers", action="store_true", help="also print who calls the checks"
    )
    arguments = parser.parse_args()
    for claim in selected_claims([f"{word}*" for word in arguments.claims]):
        share, stats = validation_share(claim, arguments.seed)
        total = share.checks / share.calls
        primitive = share.primitive_checks / share.primitive_calls
        print(
            f"{claim.id}: {share.checks} of {share.calls} calls, {total:.1%}"
            f" (primitive: {share.primitive_checks} of {share.primitive_calls}, {primitive:.1%})",
            flush=True,
        )
        if arguments.callers:
            stats.print_callers(r"numerics.border.validation\.py")


if __name__ == "__main__":
    main()
