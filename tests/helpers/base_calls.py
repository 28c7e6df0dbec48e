"""What the base install must do, and what it must refuse in one sentence: a script that runs by
itself, `python base_calls.py [--block]`.

With --block the packages of the extras cannot be imported, as if they were not installed. The last
line is "fine" if every call did what is expected of it.
"""

import contextlib
import io
import os
import sys
import tempfile
import traceback
from functools import partial
from pathlib import Path

# those of the extras `own` and `figures`, what these bring, and the package of the stress tests
ABSENT = ("jax", "jaxlib", "optax", "matplotlib", "PIL", "jinja2", "markupsafe", "mpmath")
OWN = "pip install 'attnscope[own]'."
FIGURES = "pip install 'attnscope[figures]'."


class Blocked:
    """An import hook: the packages of the extras are not there."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def excess(length, inverse_temperature):
    """A cell of the sweep."""
    import attnscope as at

    task = at.SingleLocation(dim=12, length=length)
    return {"excess": at.risk(task, at.Erf(inverse_temperature), at.Overlaps.oracle()).excess}


def computed(folder):
    """Calls that must work, by name."""
    import numpy as np

    import attnscope as at

    task = at.SingleLocation(dim=12, length=4)
    quick = {"gate": "quadratic", "pooling": "softmax", "loss": "mixture", "n_starts": 2}
    bags = at.SingleLocation(dim=4, length=4, signal=5.0, noise=0.1, seed=3).sample(
        60, seed=1
    )
    somewhere = at.Overlaps(0.5, 0.1, 0.1, 0.4, 0.2)
    heads = {
        "erf": at.Erf(0.5),
        "softmax": at.Softmax(0.5),
        "softplus": at.SoftplusAttention(0.5),
        "sink": at.SoftmaxOne(0.5),
        "linear": at.LinearAttention(0.5),
        "tanh": at.Componentwise(np.tanh, 0.5),
        "optimal": at.optimal_sigma(task),
    }
    shipped = {
        "grid": at.GridLocation(2, 2, 12),
        "several": at.MultiLocation(12, 4),
        "largest": at.MaxLocation(12, 4),
        "lengths": at.RandomLength(task, [2, 4]),
        "correlated": at.CorrelatedBackground(
            task, covariance=np.diag(np.linspace(0.5, 1.5, 12))
        ),
        "directions": at.MultiDirection(12, 4),
        "spikes": at.SpikeMixture(12, 4),
    }
    for name, head in heads.items():
        yield f"risk {name}", lambda head=head: at.risk(task, head, somewhere)
        yield f"gradient {name}", lambda head=head: at.risk_gradient(task, head, somewhere)
    for name, other in shipped.items():
        for head in (at.Erf(0.5), at.Softmax(0.5)):
            yield (
                f"risk on {name}",
                lambda other=other, head=head: at.risk(other, head, somewhere, samples=1000),
            )
    yield "stationary points", lambda: at.stationary_points(task, at.Erf(0.5))
    for head in (at.Erf(0.5), at.Softmax(0.5)):
        for batch in (None, 2):
            settings = {"runs": 2, "steps": 4, "log_every": 2, "step_size": 1e-3}
            settings |= {"batch_size": batch, "progress": False}
            yield (
                f"train {head} {batch}",
                lambda head=head, s=settings: at.train(task, head, **s)._repr_html_(),
            )
    spiked = at.SingleLocation.spiked(200, 3, 5.0, noise=0.3)
    yield "learning curve", lambda: at.learning_curve(spiked, [1.0, 2.0])
    yield "bags needed", lambda: at.bags_needed(spiked, 0.5)

    def fit(kind, labels):
        model = kind(**quick).fit(bags.tokens, labels)
        model.predict(bags.tokens)
        model.locate(bags.tokens)
        return model

    yield (
        "regressor",
        lambda: str(
            fit(at.SingleLocationRegressor, bags.target).diagnose(bags.tokens, bags.target)
        ),
    )
    classifier = partial(at.SingleLocationClassifier, assumption="single")
    yield "classifier", lambda: fit(classifier, bags.target > 0)
    yield (
        "sweep",
        lambda: at.sweep(
            excess,
            {"length": [2, 4], "inverse_temperature": [0.5]},
            store=folder / "runs",
            progress=False,
        ),
    )
    yield "reproduce", lambda: at.reproduce("slr-01*", progress=False)[0]._repr_html_()


def refused(folder):
    """(name, call, the words of its sentence) of what needs an extra."""
    import attnscope as at

    task = at.SingleLocation(dim=12, length=4)
    start = at.Overlaps(0.5, 0.0, 0.0, 0.5, 0.0)
    own = lambda x: x / (1 + abs(x))
    several = at.MultiLocation(12, 4)
    short = {"steps": 2, "log_every": 1, "progress": False}
    full = {"engine": "full", **short}
    yield "FullSgd", lambda: at.FullSgd(task, at.Erf(0.1), 0.01, 8), OWN
    yield "FullPopulation", lambda: at.FullPopulation(task, at.Erf(0.1), 0.01), OWN
    yield "FullMatrices", lambda: at.FullMatrices(task, 1.0, 3, 0.01, 8), OWN
    yield "FullHeads", lambda: at.FullHeads(several, at.MultiHead(at.Erf(0.1)), 0.01, 8), OWN
    yield "GenericSgd", lambda: at.GenericSgd(task, own, 0.01, 8), OWN
    yield "SGD", lambda: at.train(several, at.Erf(0.1), batch_size=2, **short), OWN
    yield "squared_loss", lambda: at.squared_loss(at.Erf(0.1)), OWN
    yield "train full", lambda: at.train(task, at.Erf(0.1), **full), OWN
    yield "train full SGD", lambda: at.train(task, at.Erf(0.1), batch_size=2, **full), OWN
    yield "own activation", lambda: at.risk(task, at.Componentwise(own, 0.5), start), OWN
    yield "risk_function", lambda: at.risk_function(task, at.Erf(0.1)), OWN
    yield "x64", lambda: at.x64(), OWN
    yield "gradient", lambda: at.risk_gradient(several, at.Softmax(0.5), start), OWN
    yield "train_block", lambda: at.train_block(task, at.SimplifiedAttention(12)), OWN
    block = at.TransformerBlock(12)
    tokens = task.sample(3, seed=0).tokens
    yield "block", lambda: block.predict(block.init(0), tokens), OWN
    figure = at.Figure("", ())
    yield "Figure.save", lambda: figure.save(folder / "a.svg"), FIGURES
    yield "report", lambda: at.reproduce("slr-01*", out=folder / "report"), FIGURES


def typed(folder):
    """(words of a command, the words of its refusal or None)."""
    small = ("--dim", "12", "--length", "4", "--inverse-temperature", "0.5")
    train = ("train", *small, "--runs", "2", "--steps", "10")
    quick = ("--gate", "quadratic", "--pooling", "softmax", "--loss", "mixture")
    data = str(folder / "bags.csv")
    model = str(folder / "model.npz")
    drawing = str(folder / "a.svg")
    curve = ("curve", "--alpha", "1,2")
    yield ("risk", *small), None
    yield train, None
    yield (*train, "--batch-size", "2", "--predictor", "softmax", "--json"), None
    yield curve, None
    yield ("fit", data, "--out", model, *quick), None
    yield ("predict", model, data), None
    yield ("locate", model, data), None
    yield ("claims",), None
    yield ("show", "slr-01"), None
    yield ("tasks",), None
    yield ("--help",), None
    # a run of a day: the sentence comes before it
    long = ("train", *small, "--runs", "1000", "--steps", "1000000000")
    yield (*long, "--plot", drawing), FIGURES
    yield (*curve, "--plot", drawing), FIGURES
    yield ("reproduce", "--out", str(folder / "report")), FIGURES
    yield (*train, "--engine", "full"), OWN
    yield ("risk", "--task", str(folder / "own_task.py"), *small), OWN
    yield ("explore", "--no-browser"), "attnscope["


def write_files(folder):
    """A table of bags, and a task of somebody's own that imports JAX."""
    import attnscope as at

    bags = at.SingleLocation(dim=3, length=4, signal=5.0, noise=0.1, seed=3).sample(
        40, seed=1
    )
    rows = ["bag,y,a,b,c"]
    for i, (tokens, label) in enumerate(zip(bags.tokens, bags.target)):
        rows += [f"{i},{label},{a},{b},{c}" for a, b, c in tokens]
    (folder / "bags.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "own_task.py").write_text("import jax.numpy\n", encoding="utf-8")


def run_command(words):
    """(exit code, what was printed) of the command line in this process."""
    from attnscope.cli import main

    said = io.StringIO()
    sys.argv = ["attnscope", *words]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except Exception:
            code = traceback.format_exc()
    return code, said.getvalue()


def main():
    from attnscope.errors import AttnscopeError

    folder = Path(tempfile.mkdtemp())
    os.chdir(folder)
    write_files(folder)
    wrong = []
    for name, call in computed(folder):
        try:
            call()
        except Exception:
            wrong.append(f"{name}: {traceback.format_exc()}")
    for name, call, words in refused(folder):
        try:
            call()
            wrong.append(f"{name}: was computed")
        except AttnscopeError as error:
            if not str(error).endswith(words) or "\n" in str(error):
                wrong.append(f"{name}: {error}")
        except Exception:
            wrong.append(f"{name}: {traceback.format_exc()}")
    for command, words in typed(folder):
        code, said = run_command(command)
        if code != (0 if words is None else 2) or (words or "") not in said:
            wrong.append(f"{' '.join(command)}: {code} {said}")
        elif words is not None and len(said.strip().splitlines()) != 1:
            wrong.append(f"{' '.join(command)}: more than a sentence: {said}")
    loaded = sorted(set(ABSENT) & {name.partition(".")[0] for name in sys.modules})
    print("\n".join(wrong) or f"fine; loaded of the extras: {loaded}")


if __name__ == "__main__":
    if "--block" in sys.argv:
        sys.meta_path.insert(0, Blocked)
    main()
