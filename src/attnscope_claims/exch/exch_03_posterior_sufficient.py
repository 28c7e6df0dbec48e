"""The posterior of the latent is sufficient; the likeliest topic and a rounded posterior are not.

notation: K = 3 topics, V = 5 symbols, L = 6 tokens (15625 sequences), label y = r_z + noise, T =
T(X) a representation.

    regret(T) = E(y - E[y | T])^2 - E(y - E[y | X])^2 = E(E[r_z | X] - E[r_z | T])^2

is 0 for T = X, the counts, the posterior; positive for the likeliest topic, the posterior rounded
to 0.1, and the first L - 1 tokens.

Routes: enumeration of all sequences for the regret, against squared errors on sampled sequences
with sampled labels, the two predictors on the same data (the difference has less noise than its
parts). The regret of the rounded posterior is some 1e-3, too small for sampled labels: there the
label is integrated out, (E[y | T] - E[y | X])^2 on sampled sequences. Five random sets of topics per
seed.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import BAND, exact_count, mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Points
from attnscope.tasks.exchangeable.topics import Topics
from attnscope.theory.exchangeable.representation import all_sequences, representation
from attnscope_claims.drawing import figure, legend, panel

LENGTH = 6
NOISE = 0.2
SETS = 5
LABELS = np.array([0.0, 1.0, 2.0])
REGRET_ROUNDING = 1e-20
SQUARES_WHY = "roundoff: squares of rounding errors are 1e-30; 1e-20 was stated beforehand"
LOSSY_REGRETS = {
    "map": 1e-3,
    "rounded": 1e-5,
    "prefix": 1e-3,
}  # regret that counts as a loss: far above rounding errors
WIDTH = 0.3  # half the length of the lines in the left panel
NAMES = {
    "map": "likeliest topic",
    "rounded": "posterior rounded to 0.1",
    "prefix": "all but one token",
}


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 3])
    tasks = [
        Topics(
            rng.dirichlet(np.full(3, 3.0)),
            rng.dirichlet(np.ones(5), size=3),
            labels=LABELS,
            noise=NOISE,
        )
        for _ in range(SETS)
    ]
    sufficient = {
        kind: max(representation(task, LENGTH, "posterior", labels).regret for task in tasks)
        for kind, labels in (("one label", LABELS), ("all labels", None))
    }
    exact = {
        name: np.array([representation(task, LENGTH, name, LABELS).regret for task in tasks])
        for name in LOSSY_REGRETS
    }
    n = context.pick(40_000, 400_000)
    measured = {
        name: np.array(
            [
                mean_and_error(_losses(task, name, n, int(rng.integers(2**31))))
                for task in tasks
            ]
        ).T
        for name in LOSSY_REGRETS
    }
    comparisons = (
        *(
            worst(
                f"regret of posterior, {kind}",
                0.0,
                regret,
                REGRET_ROUNDING,
                SQUARES_WHY,
                key=f"posterior-{kind.split()[0]}",
                scale=LOSSY_REGRETS["map"],
            )
            for kind, regret in sufficient.items()
        ),
        *(
            sampled(f"regret of the {NAMES[name]}", exact[name], *measured[name], key=name)
            for name in LOSSY_REGRETS
        ),
        *(
            exact_count(
                f"sets of topics where the {NAMES[name]} loses more than {least:g}",
                SETS,
                (exact[name] > least).sum(),
                key=f"{name}-sets",
            )
            for name, least in LOSSY_REGRETS.items()
        ),
    )
    notes = f"Regret of the posterior at most {max(sufficient.values()):.0e}."
    return Evidence(comparisons, _figure(exact, measured), notes)


def _losses(task: Topics, name: str, n: int, seed: int) -> np.ndarray:
    """(y - E[y | T])^2 - (y - E[y | X])^2 on sampled sequences, (n,); of the rounded posterior its
    mean over y.
    """
    batch = task.sample(n, LENGTH, seed)
    bayes = task.bayes_predict(batch.tokens)
    lossy = _from_statistic(task, name, batch.tokens)
    if name == "rounded":
        return (lossy - bayes) ** 2
    return (batch.target - lossy) ** 2 - (batch.target - bayes) ** 2


def _from_statistic(task: Topics, name: str, tokens: np.ndarray) -> np.ndarray:
    """E[r_z | T] at the sampled sequences: a table of all sequences,
    averaged over those with the same T.
    """
    everything = all_sequences(task, LENGTH)
    # the row of each sequence in the table
    code = tokens @ task.vocabulary ** np.arange(LENGTH)[::-1]
    if name == "prefix":
        return task.bayes_predict(tokens[:, :-1])  # exchangeable: what L - 1 tokens say
    keys = {
        "map": lambda p: np.argmax(p, axis=1),
        "rounded": lambda p: np.round(p / 0.1) @ [1, 100, 10_000],
    }[name](everything.posterior)
    means = everything.posterior @ LABELS
    out = np.empty(len(keys))
    for key in np.unique(keys):
        use = keys == key
        out[use] = np.average(means[use], weights=everything.probability[use])
    return out[code]


def _figure(
    exact: dict[str, np.ndarray],
    measured: dict[str, np.ndarray],
) -> Figure:
    sets = np.arange(SETS)
    gap = np.full(SETS, np.nan)  # no line from one set of topics to the next
    ends = np.stack([sets - WIDTH, sets + WIDTH, gap], axis=1).ravel()
    lossy = [
        mark
        for i, name in enumerate(LOSSY_REGRETS)
        for mark in (
            Line(ends, np.repeat(exact[name], 3), NAMES[name], i),
            Points(sets, measured[name][0], "", i, BAND * measured[name][1]),
        )
    ]

    return figure(
        "Regret over Bayes of what is kept (lines exact, points sampled)",
        panel(
            "representations that lose",
            "set of topics",
            "regret",
            *lossy,
            legend("sampled"),
            log="y",
            x_range=(-0.5, SETS - 0.5),
            x_names=tuple(str(i + 1) for i in range(SETS)),
        ),
    )


CLAIM = Claim(
    id="exch-03-posterior-sufficient",
    title="The posterior is sufficient; MAP and rounding lose",
    statement=(
        "[Predicting from the posterior of the latent is as good as predicting from all tokens, for "
        "one label](posterior-one) [and for all labels that depend on the tokens through the "
        "latent](posterior-all).",
        f"[The likeliest topic has a regret above {LOSSY_REGRETS['map']:g} in each of {SETS} random sets of "
        "topics](map-sets, map).",
        f"[The posterior rounded to 0.1 has a regret above {LOSSY_REGRETS['rounded']:g}](rounded-sets, "
        f"rounded), [all tokens but one a regret above {LOSSY_REGRETS['prefix']:g}](prefix-sets, prefix).",
    ),
    headline="map-sets",
    provenance=Provenance(
        "same",
        ("B/sufficient",),
        "the numbers",
    ),
    hypotheses=(
        "three random topics over five symbols, six tokens, label independent of the "
        "tokens given the topic"
    ),
    routes=(
        "enumeration of all sequences",
        "squared errors on sampled sequences; for sufficiency, exact zero",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.Topics([0.5, 0.3, 0.2], [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])\n"
        "for name in ('tokens', 'counts', 'posterior', 'rounded', 'map'):\n"
        "    print(name, at.representation(task, 6, name).regret)\n"
    ),
)
