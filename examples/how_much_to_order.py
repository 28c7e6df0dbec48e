"""
How much to order: deciding by attention
========================================

A shop orders before demand is known. A unit short costs 9, a unit left over 1. What it knows are
past days: a description of the day (a key) and its demand. ``attention_decision`` weighs past days
by their likeness to today and takes the order with the least average cost over them: the weighted
0.9-quantile of demand. No law of demand is assumed. The rival fits a normal law to the same
weighted days, and cannot see that now and then somebody buys five more.
"""

import sys

import numpy as np
from scipy.special import ndtri

import attnscope as at
from attnscope.figures.figure import Figure, Line, Panel, Points

SHORT, OVER = 9.0, 1.0
BANDWIDTH = 0.05
LARGE = 0.15  # chance of a large order


def days(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Replace this by your own: keys (n, 2), demand (n,). It has a season, and large orders."""
    season = rng.uniform(0, 2 * np.pi, n)
    keys = np.column_stack([np.cos(season), np.sin(season)])
    return keys, np.sin(season) + rng.random(n) + 5 * (rng.random(n) < LARGE)


def cost(order: np.ndarray, demand: np.ndarray) -> np.ndarray:
    return SHORT * np.maximum(demand - order, 0) + OVER * np.maximum(order - demand, 0)


def normal_order(query: np.ndarray, keys: np.ndarray, demand: np.ndarray) -> np.ndarray:
    """The 0.9-quantile of a normal law with the weighted mean and variance."""
    moments = np.column_stack([demand, demand**2])
    mean, square = at.softmax_attention(query, keys, moments, bandwidth=BANDWIDTH).T
    tau = SHORT / (SHORT + OVER)
    return mean + ndtri(tau) * np.sqrt(np.maximum(square - mean**2, 0))


def main(out: str = "how_much_to_order.png", histories: int = 40) -> None:
    rng = np.random.default_rng(0)
    sizes = (50, 100, 200, 400, 800, 1600)
    regret = {"attention on costs": [], "normal forecast": []}
    for n in sizes:
        found = []
        for _ in range(histories):
            today, happened = days(1000, rng)
            # the best order knows the law: 0.9 = 0.85 + 0.15 * 1/3
            best = cost(today[:, 1] + 5 + 1 / 3, happened)
            keys, demand = days(n, rng)
            costs = (SHORT, OVER)
            order = at.attention_decision(today, keys, demand, costs, bandwidth=BANDWIDTH)
            orders = (order.action, normal_order(today, keys, demand))
            found.append([np.mean(cost(o, happened) - best) for o in orders])
        for name, value in zip(regret, np.mean(found, axis=0)):
            regret[name].append(value)
        print(f"{n:5d} days: " + ", ".join(f"{k} {v[-1]:.3f}" for k, v in regret.items()))
    marks = tuple(Line(sizes, y, name, i) for i, (name, y) in enumerate(regret.items()))
    dots = tuple(Points(sizes, y, "", i) for i, y in enumerate(regret.values()))
    label = "cost above the best order"
    panel = Panel("", "past days", label, (*marks, *dots), log_x=True, log_y=True)
    Figure("How much to order", (panel,)).save(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
