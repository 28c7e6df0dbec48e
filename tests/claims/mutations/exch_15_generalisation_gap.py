"""What makes the sentences of exch-15 false."""

from helpers.mutation import replaced

KEEP = ("_trace", "_gap", "_positions", "_linear_law")


def _scaled_gap(factor):
    """Measured gaps times factor(n, L)."""
    return lambda gap: (
        lambda objective, n, length, *rest: tuple(
            x * factor(n, length) for x in gap(objective, n, length, *rest)
        )
    )


def _by_length(function, own, shared):
    """Relative gaps of linear weights times (L/4)^own, or (L/4)^shared if they are shared."""
    return lambda length, is_shared, *rest: tuple(
        x * (length / 4) ** (shared if is_shared else own)
        for x in function(length, is_shared, *rest)
    )


MUTATIONS = (
    *replaced(
        "size",
        "the gap falls as 1/sqrt(n)",
        "_gap",
        _scaled_gap(lambda n, L: (n / 256) ** 0.5),
    ),
    *replaced(
        "takeuchi", "half of Takeuchi's trace", "_trace", lambda f: lambda *a: f(*a) / 2
    ),
    *replaced("takeuchi", "the gap is twice as large", "_gap", _scaled_gap(lambda n, L: 2.0)),
    *(
        mutation
        for objective in ("masked", "supervised")
        for mutation in replaced(
            f"flat-{objective}",
            "the gap grows in proportion to the length",
            "_gap",
            _scaled_gap(lambda n, L: L / 8),
        )
    ),
    *(
        mutation
        for key in ("proportion", "per-position")
        for mutation in replaced(
            key,
            "own weights cost as sqrt(L)",
            "_positions",
            lambda function: _by_length(function, -0.5, 0.0),
        )
    ),
    *replaced(
        "shared",
        "shared weights cost in proportion to L",
        "_positions",
        lambda function: _by_length(function, 0.0, 1.0),
    ),
)
