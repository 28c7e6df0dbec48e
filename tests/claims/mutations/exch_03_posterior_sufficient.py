"""What makes the sentences of exch-03 false."""

from helpers.mutation import replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_losses", "representation")
REBUILT = {
    "regret of tokens, one label": DROPPED,
    "regret of tokens, all labels": DROPPED,
    "regret of counts, one label": DROPPED,
    "regret of counts, all labels": DROPPED,
    "regret of the posterior rounded to 0.1": (
        "the label is integrated out: with sampled labels a regret of 0 would have passed"
    ),
}


def _taken_for(one, other):
    """Of the representation `one` only `other` is kept."""
    return lambda representation: (
        lambda task, length, name, labels: representation(
            task, length, other if name == one else name, labels
        )
    )


def _times(name, factor):
    """The exact regret of one representation times a factor."""

    def change(representation):
        def mutated(task, length, which, labels):
            found = representation(task, length, which, labels)
            return found._replace(regret=found.regret * (factor if which == name else 1))

        return mutated

    return change


MUTATIONS = (
    *(
        replaced(
            key,
            "the posterior is known to 0.1",
            "representation",
            _taken_for("posterior", "rounded"),
        )[0]
        for key in ("posterior-one", "posterior-all")
    ),
    *(
        replaced(
            f"{name}-sets",
            f"{name} is as good as the posterior",
            "representation",
            _taken_for(name, "posterior"),
        )[0]
        for name in ("map", "rounded", "prefix")
    ),
    *(
        replaced(name, "the regret is half as large", "representation", _times(name, 0.5))[0]
        for name in ("map", "rounded", "prefix")
    ),
)
