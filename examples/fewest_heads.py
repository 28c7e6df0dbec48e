"""
How many heads does linear attention need?
==========================================

Linear attention of any number of heads is a linear function of cubic features, so one least-squares
solve gives the smallest training loss that any number of heads can reach. Here labels come from a
teacher with three heads and noise. The points are the best one, two, three, ... heads found; the
line is the optimum over all of them, which no training run can beat.
"""

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Line, Panel, Points

D = 4
rng = np.random.default_rng(0)
tokens = rng.standard_normal((2000, 8, D))
query = rng.standard_normal((2000, D))
V = rng.standard_normal((3, D, D))
Q = rng.standard_normal((3, D, D))
clean = np.einsum("hai,nli,nlj,hjk,nk->na", V, tokens, tokens, Q, query, optimize=True)
target = clean + 5 * rng.standard_normal(clean.shape)

fit = at.fit_linear_attention(tokens, query, target)
print(fit)
print(f"smallest eigenvalue of the certificate: {fit.spectrum[-1]:.3f}")

names = ("1", "2", "3", "4", "5", "6", "7")
losses = []
for k in names:
    found = fit.heads(int(k))
    said = np.einsum(
        "hai,nli,nlj,hjk,nk->na",
        found.value,
        tokens,
        tokens,
        found.score,
        query,
        optimize=True,
    )
    losses.append(np.mean(np.sum((said - target) ** 2, axis=1)))
    print(f"{k} heads: loss {losses[-1]:.3f}, away from the optimum by {found.residual:.1e}")

optimum = fit.optimum.value
panel = Panel(
    "a teacher of three heads, and noise",
    "heads",
    "mean squared error on the data",
    (
        Points(np.arange(7), losses, "the best k heads found", color=0),
        Line([0, 6], [optimum, optimum], "optimum over all heads", color=1, dashed=True),
    ),
    log_y=True,
    x_names=names,
)
Figure("Three heads do nearly all", (panel,)).save("fewest_heads.png")
