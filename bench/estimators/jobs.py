"""One job: one model on one case with one seed. What it measured is written to the store at once,
so a killed run loses nothing.

A result is kept under a hash of the sources it depends on (the case's file and the model's): change
the estimator and only its jobs run again. `seconds` are the processor's, on one thread, so that
jobs run at different times compare; `wall` is for the progress line.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import attnscope

HERE = Path(__file__).parent
PACKAGE = Path(attnscope.__file__).parent
ROOM = PACKAGE / "estimators"
ESTIMATOR = [
    *sorted((ROOM / "fit").glob("*.py")),
    *sorted((ROOM / "bags").glob("*.py")),
    *(ROOM / f"{name}.py" for name in ("base", "regressor", "classifier")),
    *(
        PACKAGE / "numerics" / "compiled" / f"{name}.py"
        for name in ("data_pass", "bag_losses")
    ),
]
VARIANTS = {  # of ours, named by what is changed
    "ours": {},
    "robust": {"robust": True},
    "attention": {"loss": "attention"},
    "mixture": {"loss": "mixture"},
    "linear gate": {"gate": "linear"},
    "random features": {"gate": "random-features"},
    "sigmoid": {"pooling": "sigmoid"},
}
PEERS = {
    "ABMIL": ("attention_peers", "GatedAttention"),
    "Transformer": ("attention_peers", "ClsTransformer"),
    "mean-pool": ("plain_peers", "MeanPool"),
    "max-pool": ("plain_peers", "MaxPool"),
    "instance mean": ("plain_peers", "InstanceMean"),
    "boosting": ("plain_peers", "PooledBoosting"),
    "prime": ("plain_peers", "PrimeInstance"),
    "PCA 16": ("wide_peers", "ByHand16"),
    "PCA 32": ("wide_peers", "ByHand32"),
    "PCA 64": ("wide_peers", "ByHand64"),
    "PCA 128": ("wide_peers", "ByHand128"),
}
EVERY = ("ours", "reference", "ABMIL", "mean-pool", "boosting")
EXTRA = {  # beyond EVERY; the Transformer is the slowest by far
    "base": ("Transformer", "prime"),
    "t4 tokens": ("robust",),
    "digits key n=150": ("attention", "mixture", "linear gate", "random features", "sigmoid"),
    "text n=60": ("Transformer", "prime"),
    "text n=300": ("Transformer", "prime"),
    "musk1": ("Transformer", "prime"),
    "elephant": ("Transformer", "prime"),
}
BY_HAND = ("PCA 16", "PCA 32", "PCA 64", "PCA 128")
WIDE = {  # instead of EVERY: boosting and least squares on 1536 features prove nothing
    "wide d=384": ("ours", "reference", "ABMIL", *BY_HAND),
    "wide d=768": ("ours", "reference", "ABMIL", *BY_HAND),
    "wide d=1536": ("ours", "reference", "ABMIL", *BY_HAND),
    "wide hopeless": ("ours", "reference"),
    "wide noise": ("ours", "reference"),
    "wide classes": ("ours", "ABMIL"),
    "wide web": ("ours", "mean-pool", "max-pool"),
}


class Job(NamedTuple):
    case: str
    model: str
    seed: int


def make_case(case: str) -> Callable:
    import cases

    if case in cases.CASES:
        return cases.CASES[case]
    import real_cases
    import wide_cases

    return (real_cases.CASES | wide_cases.CASES)[case]


def models_of(case: str) -> tuple[str, ...]:
    if case.startswith("Cramér-Rao"):
        return ("ours",)
    return WIDE[case] if case in WIDE else EVERY + EXTRA.get(case, ())


# -- running ---------------------------------------------------------------------------------------


def run(job: Job, store: str) -> dict[str, Any]:
    """The stored result, or a new one, stored."""
    path = stored_at(job, store)
    if not path.exists():
        clock = time.perf_counter()
        result = measure(job) | {
            "job": list(job),
            "wall": round(time.perf_counter() - clock, 2),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(result))
        part.replace(path)
    return json.loads(path.read_text())


def stored_at(job: Job, store: str) -> Path:
    words = "-".join(
        "".join(c if c.isalnum() else "_" for c in part) for part in (job.case, job.model)
    )
    return Path(store) / f"{words}-{job.seed}-{digest(job)}.json"


def digest(job: Job) -> str:
    import cases

    if job.case.startswith("Cramér-Rao"):
        files = [HERE / "efficiency.py", *ESTIMATOR]
    else:
        files = [HERE / "cases.py"] + (
            []
            if job.case in cases.CASES
            else [HERE / ("wide_cases.py" if job.case in WIDE else "real_cases.py")]
        )
        files += ESTIMATOR if job.model in BY_HAND else []
        files += (
            ESTIMATOR
            if job.model in VARIANTS
            else [HERE / f"{PEERS[job.model][0]}.py"]
            if job.model in PEERS
            else []
        )
    return hashlib.sha256("".join(map(_code, files)).encode()).hexdigest()[:12]


@cache  # as it was when this process first asked, which is the code it runs
def _code(file: Path) -> str:
    """A source without comments and the words of docstrings: words may change, results stay (a
    docstring where there was none counts as code).
    """
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            body[0].value.value = ""
    return ast.dump(tree)


def measure(job: Job) -> dict[str, Any]:
    if job.case.startswith("Cramér-Rao"):
        import efficiency

        return efficiency.measure(job.case, job.model, job.seed)
    parts = [_one(job, split) for split in make_case(job.case)(job.seed)]
    return {name: [part[name] for part in parts] for name in parts[0]}


def _one(job: Job, split: Any) -> dict[str, float]:
    if job.model == "reference":
        return _reference(split)
    if job.model in VARIANTS:
        return _ours(split, job.seed, VARIANTS[job.model])
    return _peer(split, job.seed, *PEERS[job.model])


# -- measuring -------------------------------------------------------------------------------------


def _reference(split: Any) -> dict[str, float]:
    """Variance of the test labels; test error of Bayes and of least squares on the deciding tokens
    themselves.
    """
    out = {"variance": float(np.var(split.test_y))}
    if split.bayes is not None:
        out["bayes"] = float(np.mean((split.bayes - split.test_y) ** 2))
    if split.location is not None and not split.classes:
        pairs = ((split.bags, split.location), (split.test_bags, split.test_location))
        x, t = (np.column_stack([b[np.arange(len(j)), j], np.ones(len(j))]) for b, j in pairs)
        out["known"] = float(
            np.mean((t @ np.linalg.lstsq(x, split.y, rcond=None)[0] - split.test_y) ** 2)
        )
    return out


def _ours(split: Any, seed: int, options: dict) -> dict[str, float]:
    from attnscope import SingleLocationClassifier, SingleLocationRegressor

    kind = SingleLocationClassifier if split.classes else SingleLocationRegressor
    # compiles
    kind(alpha=1.0).fit(
        split.bags[:20], split.y[:20] if not split.classes else np.arange(20) % 2
    )
    clock = time.process_time()
    model = kind(random_state=seed, **options).fit(split.bags, split.y)
    out = {"seconds": time.process_time() - clock}
    if split.classes:
        out |= _class_measures(model.predict_proba(split.test_bags)[:, 1] - 0.5, split)
    else:
        low, high = model.predict_interval(split.test_bags).T
        out["coverage"] = float(np.mean((low <= split.test_y) & (split.test_y <= high)))
        out["error"] = float(np.mean((model.predict(split.test_bags) - split.test_y) ** 2))
    return out | _located(model, split)


def _located(model: Any, split: Any) -> dict[str, float]:
    """How often the deciding token is found; for classes also of each class."""
    if split.test_location is None:
        return {}
    hit = model.locate(split.test_bags) == split.test_location
    out = {"location": float(hit.mean())}
    if split.classes:
        out |= {f"location {c}": float(hit[split.test_y == c].mean()) for c in (0, 1)}
    return out


def _peer(split: Any, seed: int, module: str, name: str) -> dict[str, float]:
    model = getattr(__import__(module), name)(seed, split.classes)
    clock = time.process_time()
    model.fit(split.bags, split.y)
    seconds = time.process_time() - clock
    out = {
        "seconds": getattr(model, "seconds", seconds),
        "one training": getattr(model, "one", seconds),
    }
    score = model.predict(split.test_bags)
    return out | (
        _class_measures(score, split)
        if split.classes
        else {"error": float(np.mean((score - split.test_y) ** 2))}
    )


def _class_measures(score: np.ndarray, split: Any) -> dict[str, float]:
    from sklearn.metrics import roc_auc_score

    return {
        "auc": float(roc_auc_score(split.test_y, score)),
        "error": float(np.mean((score > 0) != (split.test_y == 1))),
    }
