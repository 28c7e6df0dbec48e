"""What makes the sentences of beyond-19 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_flow", "_borders", "_ends", "_vectors", "_figure")


def one_end(name):
    """Runs that all end at this minimum."""
    return lambda ends: lambda *args: np.full(len(ends(*args)), name)


MUTATIONS = (
    *replaced(
        "flow",
        "the flow ends on the other side",
        "_flow",
        lambda flow: (
            lambda *args: [
                {"semantic": "positional", "positional": "semantic"}.get(x, x)
                for x in flow(*args)
            ]
        ),
    ),
    *(
        mutation
        for i in (1, 2, 3)
        for end, other in (("semantic", "positional"), ("positional", "semantic"))
        for mutation in replaced(
            f"{end}-{i}", f"every run ends {other}", "_ends", one_end(other)
        )
    ),
    *replaced(
        "vectors-semantic", "vectors all end positional", "_vectors", one_end("positional")
    ),
    *replaced(
        "vectors-positional", "vectors all end semantic", "_vectors", one_end("semantic")
    ),
    *moved("border", "ANGLES", entry=0),
    *moved("border", "ANGLES", entry=1),
)
