"""What must hold of wide tokens; see `wide_cases`. Seconds are of one thread."""

from __future__ import annotations

from collections.abc import Iterator

from bars import Results, Row, reaches

SECONDS = {"wide d=384": 2.0, "wide d=768": 5.0, "wide d=1536": 10.0, "wide web": 60.0}
LOCATED = 0.98
PEERS = ("PCA 16", "PCA 32", "PCA 64", "PCA 128", "ABMIL")
POOLED = ("mean-pool", "max-pool")
EASY = "wide d=384"


def rows(r: Results) -> Iterator[Row]:
    """Every row whose results are there."""
    for case, most in SECONDS.items():
        if (case, "ours") in r:
            yield reaches(
                f"fit seconds, {case}", r.median(case, "ours", "seconds"), high=most
            )
    for case in ("wide d=384", "wide d=768", "wide d=1536"):
        if (case, "ours") not in r:
            continue
        found = r.median(case, "ours", "location")
        yield reaches(f"{case}, location found", found, low=LOCATED)
        peers = [m for m in PEERS if (case, m) in r]
        if peers:
            best = min(peers, key=lambda m: r.median(case, m))
            ours, base = r.median(case, "ours"), r.median(case, best)
            yield Row(case, ours, "<= 1.05x", best, base, ours <= 1.05 * base)
    case = "wide classes"
    if (case, "ours") in r and (case, "ABMIL") in r:
        ours, base = (r.auc(case, m)[0] for m in ("ours", "ABMIL"))
        yield Row(f"{case}, AUC", ours, ">= -0.01", "ABMIL", base, ours >= base - 0.01)
        ours = r.median(case, "ours", "seconds")
        once = r.median(case, "ABMIL", "one training")
        bar = "<= 1.2x"
        yield Row(f"fit seconds, {case}", ours, bar, "ABMIL, once", once, ours <= 1.2 * once)
    case = "wide web"
    pooled = {m: r.auc(case, m) for m in POOLED if (case, m) in r}
    if (case, "ours") in r and pooled:
        best = max(pooled, key=lambda m: pooled[m][0])
        mean, error = pooled[best]
        ours = r.auc(case, "ours")[0]
        bar = f">= -2 SE ({2 * error:.3f})"
        yield Row(f"{case}, AUC", ours, bar, best, mean, ours >= mean - 2 * error)
    for case in ("wide hopeless", "wide noise"):
        if (case, "ours") in r and (EASY, "ours") in r:
            ours, base = (r.median(c, "ours", "seconds") for c in (case, EASY))
            bar = "<= 1.5x"
            yield Row(f"fit seconds, {case}", ours, bar, "key 5", base, ours <= 1.5 * base)
