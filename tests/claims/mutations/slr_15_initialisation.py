"""What makes the sentences of slr-15 false."""

from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_train_runs", "_sampled_starts", "_share_decided")


def _from(start):
    """Training from another start."""
    return lambda trained: (
        lambda given, *args, **options: trained(
            start if given == "moments" else given, *args, **options
        )
    )


MUTATIONS = (
    *moved("independent", "INDEPENDENT_SHARE"),
    *replaced(
        "moments", "the moments do no better than chance", "_train_runs", _from("sphere")
    ),
    *replaced(
        "tokens",
        "the moments give k and v in exchanged roles",
        "_sampled_starts",
        lambda starts: lambda *args: starts(*args)[[2, 3, 0, 1, 4]],
    ),
    *replaced(
        "swap-move",
        "the exchange is never made",
        "_train_runs",
        lambda trained: lambda *args, swap_move=False: trained(*args),
    ),
    *replaced(
        "difference",
        "k0 = v0 does as well",
        "_share_decided",
        lambda share: lambda start, *args: share("sphere", *args),
    ),
)

REBUILT = {
    "mean start from sampled tokens: the drawn law": DROPPED,
    "share at the oracle from k0 = v0": DROPPED,
}
