"""A paper in one file, as the guides have it: SignLocation and what is announced with it."""

from __future__ import annotations

from pathlib import Path

# 25 lines at most, from outside the package; in a test `from helpers.sign_location import ...`
SIGN_LOCATION = (Path(__file__).parent / "sign_location.py").read_text()

PREDICTOR = '''
from dataclasses import dataclass

import numpy as np

from attnscope.predictors.attention import Predictor


@dataclass(frozen=True)
class Even(Predictor):
    """The same weight on every token."""

    def weights(self, scores, mask=None):
        real = np.ones(scores.shape) if mask is None else mask.astype(float)
        return real / real.sum(axis=-1, keepdims=True)
'''

CLAIM = """
from attnscope.claims.claim import Claim, Comparison, Evidence
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Panel


def check(context):
    line = Line([0, 1], [0, 1], "identity")
    figure = Figure("one and one", (Panel("a line", "x", "y", (line,)),))
    return Evidence((Comparison("1 + 1", 2, 1 + 1, 1e-12, why="roundoff"),), figure, "Two.")


CLAIM = Claim(
    id="sign-01-one-and-one",
    title="One and one is two",
    statement="1 + 1 = 2.",
    provenance=Provenance("new here"),
    hypotheses="none",
    routes=("by heart", "by machine"),
    check=check,
    snippet="print(1 + 1)",
)
"""

POINTS = """[attnscope.tasks]
packed-sign = sign_pack.tasks:SignLocation
lost-task = sign_pack.absent:Nothing
erf = sign_pack.tasks:SignLocation

[attnscope.predictors]
even = sign_pack.predictors:Even
softmax = sign_pack.predictors:Even
no-predictor = sign_pack.claims:check

[attnscope.claims]
sign = sign_pack.claims:CLAIM
not-a-claim = sign_pack.tasks:SignLocation
lost-claim = sign_pack.broken:CLAIM
"""


def install(folder: Path) -> Path:
    """A distribution sign-pack 0.3 as pip leaves it in a folder of sys.path: four good entry
    points (a task may be called as a predictor of ours) and five broken ones.
    """
    package = folder / "sign_pack"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "tasks.py").write_text(SIGN_LOCATION)
    (package / "predictors.py").write_text(PREDICTOR)
    (package / "claims.py").write_text(CLAIM)
    (package / "broken.py").write_text("raise RuntimeError('out of\\norder')\n")
    write_metadata(folder, "sign-pack", "0.3", POINTS)
    return folder


def write_metadata(folder: Path, name: str, version: str, points: str) -> None:
    """What pip writes beside a package, as far as entry points are concerned."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    (info / "entry_points.txt").write_text(points)
