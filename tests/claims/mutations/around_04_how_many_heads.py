"""What makes the sentences of around-04 false."""

import copy

from helpers.mutation import moved, replaced

KEEP = ("_ranks", "_layers", "_heads_from_teacher", "_figure")


def residuals(change):
    """Drawn layers whose residuals with one head too few, enough and one more are changed."""

    def changed(layers):
        def drawn(*args):
            out = layers(*args)
            for some in out.values():
                for layer in some:
                    layer.residual = change(layer.residual)
            return out

        return drawn

    return lambda layers: changed(lambda *args: copy.deepcopy(layers(*args)))


MUTATIONS = (
    *replaced(
        "rank",
        "one parameter more is free",
        "_ranks",
        lambda ranks: (
            lambda rng: (lambda rank, free: (rank, [f + 1 for f in free]))(*ranks(rng))
        ),
    ),
    *replaced(
        "fewest",
        "almost every layer needs D^2 heads",
        "generic_heads",
        lambda count: lambda dim, *rest: dim * dim,
    ),
    *moved("stated", "COUNTS", entry=4),
    *replaced(
        "stated",
        "one head fewer is enough",
        "_layers",
        residuals(lambda r: [1e-13, *r[1:]]),
    ),
    *replaced(
        "at-count",
        "no layer is completed at the count",
        "_layers",
        residuals(lambda r: [r[0], 0.1, r[2]]),
    ),
    *replaced(
        "one-more", "one more is not enough", "_layers", residuals(lambda r: [*r[:2], 0.1])
    ),
    *moved("share", "SHARE"),
    *replaced(
        "share",
        "the count tends to D^2/2",
        "generic_heads",
        lambda count: lambda dim, *rest: dim * dim // 2,
    ),
    *replaced(
        "plain",
        "singular values see the heads that there are",
        "_heads_from_teacher",
        lambda taught: (
            lambda heads, rng: (lambda n, plain, left: (n, n, left))(*taught(heads, rng))
        ),
    ),
    *replaced(
        "teachers",
        "completion finds D^2 heads",
        "_heads_from_teacher",
        lambda taught: (
            lambda heads, rng: (lambda n, plain, left: (plain, plain, left))(
                *taught(heads, rng)
            )
        ),
    ),
)

REBUILT = dict.fromkeys(
    ("count/D^2 at D = 10^6",),
    "left out: no sentence names it",
)
