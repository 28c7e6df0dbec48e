"""Estimators against their peers on the same bags and seeds, and the bars they must pass.

    python bench/estimators/bench_estimators.py [case ...] [--seeds 5] [--first 0] [--workers 2] [--models ours
    ABMIL] [--store runs/estimators] [--json out.json] [--record docs/recorded/estimators.json]

Without a case: all but the wide ones (`wide`: those, see wide_cases). Every job (case, model, seed)
is stored when it is done, and not run again until a source it depends on changes. No table is printed unless the bench's own gated
attention reaches NMSE <= .06 on base and AUC >= .85 on musk1: a peer that was not trained properly
proves nothing.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import argparse
import json
import multiprocessing
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import bars
import efficiency
import jobs
import pass_times
import wide_bars
from record import record

SYNTHETIC = (
    "base",
    "n=120",
    "key signal halved",
    "L=60, n=300",
    "correlated background",
    "key.value=.7",
    "two relevant tokens",
    "d=n=300",
    "t4 tokens",
)
REAL = (
    "digits max n=400",
    "digits key n=150",
    "digits 8 n=600",
    "text n=60",
    "text n=300",
    "musk1",
    "elephant",
)
WIDE = tuple(jobs.WIDE)
ALL = (*efficiency.CASES, *SYNTHETIC, *REAL)


def wanted(options: argparse.Namespace) -> list[jobs.Job]:
    found = []
    for case in dict.fromkeys([*options.case, "base", "musk1"]):
        models = jobs.models_of(case) if case in options.case else ("ABMIL", "reference")
        models = [m for m in models if not options.models or m in options.models]
        found += [
            jobs.Job(case, model, options.first + seed)
            for model in models
            for seed in range(options.seeds)
        ]
    return found


def collected(todo: list[jobs.Job], store: str) -> dict:
    """What is stored already, by (case, model)."""
    grouped: dict[tuple[str, str], list] = {}
    for job in todo:
        if jobs.stored_at(job, store).exists():
            grouped.setdefault((job.case, job.model), []).append(jobs.run(job, store))
    return grouped


def attempt(job: jobs.Job, store: str) -> tuple[jobs.Job, dict | None, str]:
    """(job, result, why there is none)."""
    try:
        return job, jobs.run(job, store), ""
    except Exception as error:  # one failing job must not end the others
        return job, None, f"{type(error).__name__}: {error}"


def run_all(todo: list[jobs.Job], store: str, workers: int) -> tuple[dict, dict]:
    """Results by (case, model), in the order of seeds, and failures by (case, model);
    a line per job on stderr.
    """
    start = time.perf_counter()
    done = {}
    failed = {}
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        pending = [pool.submit(attempt, job, store) for job in todo]
        for count, future in enumerate(as_completed(pending), 1):
            job, result, why = future.result()
            if result is None:
                failed[job.case, job.model] = why
            else:
                done[job] = result
            line = why or f"{result['wall']:.1f} s"
            print(
                f"[{count}/{len(todo)}, {time.perf_counter() - start:.0f} s] {job.case}, "
                f"{job.model}, seed {job.seed}: {line}",
                file=sys.stderr,
                flush=True,
            )
    grouped: dict[tuple[str, str], list] = {}
    for job in todo:
        if job in done and (job.case, job.model) not in failed:
            grouped.setdefault((job.case, job.model), []).append(done[job])
    return grouped, failed


def shown(x: float | None) -> str:
    return "" if x is None else f"{x:.3g}"


def print_table(rows: list[bars.Row]) -> None:
    """100 columns."""
    print(f"{'case':<37}{'ours':>8}  {'baseline':<16}{'':>8}{'ratio':>7}  {'bar':<16} ok")
    for r in rows:
        ok = {True: "yes", False: "NO", None: "-"}[r.ok]
        numbers = (
            f"{shown(r.ours):>8}  {r.against:<16}{shown(r.baseline):>8}{shown(r.ratio):>7}"
        )
        print(f"{r.case:<37}{numbers}  {r.bar:<16} {ok}")


def print_models(results: bars.Results) -> None:
    """Everything measured: test error of every model, and for classes the AUC."""
    for case in dict.fromkeys(c for c, _ in results.found if not c.startswith("Cramér-Rao")):
        models = [m for c, m in results.found if c == case and m != "reference"]
        classes = ("musk1", "elephant", "wide classes", "wide web")
        name = "auc" if case in classes else "error"
        pick = (
            (lambda m: results.auc(case, m)[0])
            if name == "auc"
            else lambda m: results.median(case, m)
        )
        print(f"{case}, {name}: " + ", ".join(f"{m} {pick(m):.4g}" for m in models))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", nargs="*", help="wide, or one or more of: " + "; ".join(ALL))
    parser.add_argument(
        "--seeds", type=int, default=5, help="how many seeds; fixed beforehand: five"
    )
    parser.add_argument(
        "--first", type=int, default=0, help="the first of them (rules were tuned on 0 to 9)"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--models", nargs="*", help="only these, e.g. ours ABMIL (for filling the store)"
    )
    parser.add_argument("--store", default="runs/estimators")
    parser.add_argument(
        "--collect", action="store_true", help="compute nothing: the table of what is stored"
    )
    parser.add_argument("--json", help="write rows and all results there as well")
    parser.add_argument("--record", help="write what the documentation states there")
    options = parser.parse_args()
    options.case = options.case or list(ALL)
    if "wide" in options.case:
        options.case = [*(case for case in options.case if case != "wide"), *WIDE]
    unknown = [case for case in options.case if case not in (*ALL, *WIDE)]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are: {'; '.join(ALL)}")
    todo = wanted(options)
    store = options.store
    found, failed = (
        (collected(todo, store), {})
        if options.collect
        else run_all(todo, store, options.workers)
    )
    results = bars.Results(found)
    if trouble := bars.untrained(results):
        sys.exit(
            "gated attention reaches only "
            + " and ".join(trouble)
            + ": the peer is not trained; no table."
        )
    rows = [*efficiency.rows(results), *bars.rows(results), *wide_bars.rows(results)]
    rows.append(pass_times.row())
    print_table(rows)
    print()
    for line in efficiency.notes(results):
        print(line)
    print_models(results)
    fewer = {
        f"{case}, {model}": len(result)
        for (case, model), result in found.items()
        if len(result) < options.seeds
    }
    if fewer:
        print(
            f"fewer than {options.seeds} seeds: "
            + "; ".join(f"{name} {count}" for name, count in fewer.items())
        )
    for line in not_run(failed):
        print(textwrap.fill(line, 100, subsequent_indent="  ", break_on_hyphens=False))
    if options.json:
        everything = {f"{case} | {model}": result for (case, model), result in found.items()}
        report = {"rows": [bars.as_dict(r) for r in rows], "results": everything}
        Path(options.json).write_text(json.dumps(report, indent=1))
    if options.record:
        record(options.record, measured(results))
    # a bar that is not reached is said in the table
    sys.exit(not all(map(absent, failed.values())))


# what a job measures, apart from its seconds
MEASURED = (
    "error",
    "bayes",
    "known",
    "variance",
    "location",
    "location 0",
    "location 1",
    "auc",
)


def measured(results: bars.Results) -> dict[str, float]:
    """Medians over seeds (of the AUC means over folds) by "case | model | what"."""
    found = {}
    for case, model in results.found:
        for name in MEASURED:
            if name not in results.found[case, model][0]:
                continue
            value = (
                results.auc(case, model)[0]
                if name == "auc"
                else results.median(case, model, name)
            )
            found[f"{case} | {model} | {name}"] = value
    return found


def not_run(failed: dict[tuple[str, str], str]) -> list[str]:
    """A line per reason: the cases whose data are not installed, the jobs that failed."""
    lines = []
    for why in dict.fromkeys(failed.values()):
        keys = [key for key, reason in failed.items() if reason == why]
        who = (
            dict.fromkeys(case for case, _ in keys)
            if absent(why)
            else [", ".join(key) for key in keys]
        )
        lines.append(
            f"{'; '.join(who)}: {'skipped' if absent(why) else 'failed'}: {why.partition(': ')[2]}"
        )
    return lines


def absent(why: str) -> bool:
    """Whether a job failed only because its data are not installed."""
    return why.startswith("NotInstalled")


if __name__ == "__main__":
    main()
