"""The table of docs/tasks.md: what works for which task, read off the registry, the classes, the
routes and the engines.

`python docs/_ext/task_table.py` writes it into the page; a test says when the page is not what the
code says.
"""

import re
from pathlib import Path

from attnscope.dynamics.setup import Setup
from attnscope.dynamics.train import engine_for
from attnscope.errors import AttnscopeError
from attnscope.registry import PREDICTORS, TASKS
from attnscope.theory.optima.landscape import known_landscape
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.reference_risks import has_head
from attnscope.theory.route import find_route
from attnscope_explorer.knobs import knobs

PAGE = Path(__file__).parent.parent / "tasks.md"
MARKS = ("<!-- table: begin -->\n", "<!-- table: end -->")
SOMEWHERE = Overlaps(0.5, 0.1, 0.2, 0.6, -0.1)  # overlaps of no special kind
YES = "yes"
COLUMNS = (
    "sample", "posterior", "bayes_predict", "bayes_risk", "risk", "gradient", "population training", "SGD in law",
    "full engine", "CLI", "studies", "explorer", "save",
)  # fmt: skip
# why a cell is empty: (column, kind of task) -> reason; the kinds are those of `_kind`
TRAINING = ("gradient", "population training", "SGD in law", "full engine", "save")
EXCHANGEABLE = "nothing to train: the tokens have no planted directions"
REASONS = {
    ("bayes_risk", "classes"): "a classification: `bayes_error` in its place",
    (
        "risk",
        "classes",
    ): "a classification: `sign_error` in its place, beside `bayes_error`, `max_test_error`, `linear_error`",
    ("gradient", "classes"): "nobody has derived an exact error of a head",
    (
        "population training",
        "classes",
    ): "it would need that gradient; SGD has the logistic loss",
    (
        "risk",
        "exchangeable",
    ): "no planted directions to have overlaps with: `bayes_risk(length)` says what is possible",
    (
        "gradient",
        "planted",
    ): "nobody has derived an exact risk away from the oracle: `risk` samples it",
    ("population training", "planted"): "it would need that gradient: give `batch_size`",
    (
        "explorer",
        "exchangeable",
    ): "the page has a knob for planted tasks; its convergence view is of `SphereRegression` at settings of its own",
    **{(column, "exchangeable"): EXCHANGEABLE for column in TRAINING},
}


def _kind(row, task):
    if not row.planted:
        return "exchangeable"
    return "planted" if has_head(task) else "classes"


def _served(works):
    """ "all", or the predictors for which something works, or nothing."""
    words = [word for word in PREDICTORS if works(PREDICTORS[word].make())]
    return "all" if len(words) == len(PREDICTORS) else ", ".join(words)


def _exact(task, predictor, overlaps):
    route = find_route(task, predictor)
    return route is not None and not route.missing(task, predictor, overlaps)


def _risk(task):
    if _served(lambda p: _exact(task, p, SOMEWHERE)) == "all":
        return "exact"
    at_oracle = _served(lambda p: _exact(task, p, Overlaps.oracle())) == "all"
    return "exact at the oracle, else sampled" if at_oracle else "sampled"


def _descends(task, predictor):
    route = find_route(task, predictor)
    return _exact(task, predictor, SOMEWHERE) and route.gradient is not None


def _has_engine(task, predictor, batch_size, engine):
    if len(task.teacher_gram) > 2:
        # several directions: dynamics/heads.py, which has both engines and needs batches
        return batch_size is not None
    try:
        engine_for(Setup(task, predictor, 4e-3, 1, 0, batch_size, engine, False))
    except AttnscopeError:
        return False
    return True


def _views(row, task):
    if not row.planted:
        return ""
    table = knobs()
    views = (
        table["gamma2"].views if row.word == table["task"].default else table["task"].views
    )
    # the page trains five overlaps (attnscope_explorer/live.py): several keys and values need more
    return ", ".join(
        view for view in views if view != "training" or len(task.teacher_gram) <= 2
    )


def cells(row):
    """Column -> what stands there; "" is empty."""
    task = row.make()
    planted = row.planted
    found = {name: YES if hasattr(task, name) else "" for name in COLUMNS[:4]}
    found["risk"] = _risk(task) if planted and has_head(task) else ""
    found["gradient"] = (
        _served(lambda p: _descends(task, p)) if planted and has_head(task) else ""
    )
    trains = lambda batch, engine: (
        _served(lambda p: _has_engine(task, p, batch, engine)) if planted else ""
    )
    found["population training"] = trains(None, "reduced")
    found["SGD in law"] = trains(2, "reduced")
    found["full engine"] = trains(2, "full")
    found["CLI"] = "risk, train" if planted else "risk"
    best = "optimal_inverse_temperature, " if known_landscape(task) else ""
    found["studies"] = f"oracle_risk, {best}outcomes" if planted else "oracle_risk"
    found["explorer"] = _views(row, task)
    found["save"] = YES if planted else ""
    return found


def table():
    """The table in Markdown with its reasons below."""
    reasons = []
    lines = ["| task | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for word, row in TASKS.items():
        kind = _kind(row, row.make())
        shown = []
        for column, cell in cells(row).items():
            if not cell:
                # an empty cell without a reason is a mistake here
                reason = REASONS[column, kind]
                if reason not in reasons:
                    reasons.append(reason)
                cell = f"({reasons.index(reason) + 1})"
            shown.append(cell)
        lines.append(f"| `{word}` | " + " | ".join(shown) + " |")
    return "\n".join(
        [*lines, "", *(f"{i}. {reason}." for i, reason in enumerate(reasons, 1)), ""]
    )


def arguments():
    """The words with their classes, labels and flat arguments."""
    lines = ["| word | class | in words | arguments (default) |", "|---|---|---|---|"]
    for word, row in (TASKS | PREDICTORS).items():
        texts = [f"`{a.name}` ({_default(a.default)})" for a in row.arguments]
        lines.append(
            f"| `{word}` | `{row.kind.__name__}` | {row.label} | {', '.join(texts)} |"
        )
    return "\n".join([*lines, ""])


def _default(x):
    if x is None:
        return "left out"
    return ",".join(f"{part:g}" for part in x) if isinstance(x, list | tuple) else f"{x}"


def page(text):
    """The page with its tables made anew."""
    parts = iter((table(), arguments()))
    between = re.escape(MARKS[0]) + ".*?" + re.escape(MARKS[1])
    return re.sub(
        between, lambda found: MARKS[0] + next(parts) + MARKS[1], text, flags=re.DOTALL
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
