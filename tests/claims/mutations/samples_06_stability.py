"""What makes the sentences of samples-06 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_theory", "_residual", "_figure")

MUTATIONS = (
    *replaced(
        "stable",
        "fits leave half the residual everywhere",
        "_residual",
        lambda residual: lambda *args: residual(*args) / 2,
    ),
    *replaced("contradict", "no radius is refused", "LARGEST_STABILITY", lambda radius: 10.0),
    *replaced(
        "coincide",
        "the radius says nothing: it is lowest where the equations fail",
        "_theory",
        lambda theory: lambda dim: (lambda r, radius: (r, radius[::-1]))(*theory(dim)),
    ),
    *moved("radius", "RADII", entry=3),
    *moved("radius", "RADII", entry=4),
    *replaced("times", "as many times as the radius", "TIMES", lambda times: (2.37, 3.53)),
    *replaced(
        "times",
        "the equations hold near interpolation",
        "_theory",
        lambda theory: (
            lambda dim: (lambda r, radius: (r * np.array([1, 1, 1, 2, 5]), radius))(
                *theory(dim)
            )
        ),
    ),
)
