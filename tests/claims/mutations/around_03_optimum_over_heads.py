"""What makes the sentences of around-03 false."""

from helpers.mutation import moved, replaced

KEEP = ("_excess", "_whitened_fit", "_train_heads", "_figure")

MUTATIONS = (
    *replaced(
        "reached",
        "trained heads stay 1 % above least squares",
        "_train_heads",
        lambda trained: (
            lambda rng: (lambda best, losses: (best, 1.01 * losses))(*trained(rng))
        ),
    ),
    *replaced(
        "never-below",
        "least squares is 1 % above the best heads",
        "_train_heads",
        lambda trained: (
            lambda rng: (lambda best, losses: (1.01 * best, losses))(*trained(rng))
        ),
    ),
    *moved("open", "OPEN_DIRECTIONS", by=0.2),
    *replaced(
        "unique",
        "every context is whitened",
        "fit_linear_attention",
        lambda fit: lambda tokens, *rest: fit(0 * tokens + tokens[:1], *rest),
    ),
    *replaced(
        "same",
        "minimisers disagree on whitened contexts",
        "_whitened_fit",
        lambda whitened: lambda rng: (lambda fit, moved: (fit, 0.1))(*whitened(rng)),
    ),
    *replaced(
        "one-head",
        "alpha is 2/(L + d + 1 + s^2/lam)",
        "one_head",
        lambda head: lambda length: 2 * head(length),
    ),
    *replaced(
        "excess",
        "lam d (d + 1)/(L + d + 1): the noise costs nothing",
        "closed_excess",
        lambda excess: lambda length: 12 / (length + 4),
    ),
    *replaced(
        "parts",
        "the vector part has no term of one token",
        "certificate_parts",
        lambda parts: lambda length: parts(length) * [1, 0.75, 1, 1],
    ),
    *replaced(
        "spectrum",
        "features off the diagonal count once",
        "_features",
        lambda features: lambda *args: 0.9 * features(*args),
    ),
    *moved("smallest", "SMALLEST_EIGENVALUE"),
)
