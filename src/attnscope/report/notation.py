"""The notation card: symbols as MathML, which browsers draw themselves, with small pictures.

Pictures take the ink of the page (`currentColor`): they suit dark screens and paper. What is
learned is drawn in full lines, what is true in dashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, erf, exp, pi, sin

from markupsafe import Markup

from attnscope.figures.figure import Figure
from attnscope.figures.outcomes import OUTCOMES

__all__ = ["TASK", "Symbol", "key", "outcome_key", "symbols"]

# pixels of a picture
PICTURE_WIDTH = 120
PICTURE_HEIGHT = 72
CURVE_POINTS = 49  # points of a drawn curve: smooth at this size


@dataclass(frozen=True)
class Symbol:
    """A symbol, its definition, what it means in words, and a picture."""

    name: str
    formula: Markup
    words: str
    picture: Markup


def _row(*parts: str) -> Markup:
    return Markup(f"<math><mrow>{''.join(parts)}</mrow></math>")


def _letter(letter: str, star: bool = False) -> str:
    plain = f"<mi>{letter}</mi>"
    return f"<msup>{plain}<mo>*</mo></msup>" if star else plain


def _subscript(letter: str, index: str) -> str:
    return f"<msub><mi>{letter}</mi><mi>{index}</mi></msub>"


def _product(symbol: str, first: tuple[str, bool], second: tuple[str, bool]) -> Markup:
    """symbol = first · second"""
    return _row(
        _letter(symbol), "<mo>=</mo>", _letter(*first), "<mo>·</mo>", _letter(*second)
    )


_ROOT = "<msqrt><mrow><mi>d</mi><mo>/</mo><mn>2</mn></mrow></msqrt>"
_SQUARE = "<msup><mi>γ</mi><mn>2</mn></msup>"
_NORMAL = "<mo>∼</mo><mi>N</mi><mo>(</mo>"

# the task and the predictor, in which the symbols stand
TASK = (
    (
        "The informative token, at the hidden place J",
        _row(
            *(_subscript("X", "J"), _NORMAL, "<mi>s</mi>", _letter("k", True)),
            *("<mo>,</mo>", _SQUARE, "<mi>I</mi><mo>)</mo>"),
        ),
    ),
    (
        "The other tokens",
        _row(_subscript("X", "l"), _NORMAL, "<mn>0</mn><mo>,</mo><mi>I</mi><mo>)</mo>"),
    ),
    (
        "The label",
        _row(
            *("<mi>Y</mi><mo>=</mo>", _subscript("X", "J"), "<mo>·</mo>", _letter("v", True)),
            "<mo>+</mo><mi>noise</mi>",
        ),
    ),
    (
        "The predictor",
        _row(
            "<mi>T</mi><mo>(</mo><mi>X</mi><mo>)</mo><mo>=</mo>",
            "<munder><mo>∑</mo><mi>l</mi></munder>",
            *("<mi>σ</mi><mo>(</mo><mi>λ</mi>", _subscript("X", "l"), "<mo>·</mo><mi>k</mi>"),
            *("<mo>)</mo>", _subscript("X", "l"), "<mo>·</mo><mi>v</mi>"),
        ),
    ),
)


def symbols() -> tuple[Symbol, ...]:
    """The card, in the order of reading."""
    k, v = ("k", False), ("v", False)
    k_true, v_true = ("k", True), ("v", True)
    return (
        Symbol(
            "kappa",
            _product("κ", k, k_true),
            "does the query look for the right direction? 1 at the oracle",
            _arrows("k", "k*"),
        ),
        Symbol(
            "nu",
            _product("ν", v, v_true),
            "does the value read the right direction? 1 at the oracle",
            _arrows("v", "v*"),
        ),
        Symbol(
            "eta",
            _product("η", k, v_true),
            "the query along the value's direction: 0 at the oracle, 1 where roles are swapped",
            _arrows("k", "v*"),
        ),
        Symbol(
            "theta",
            _product("θ", v, k_true),
            "the value along the query's direction: 0 at the oracle",
            _arrows("v", "k*"),
        ),
        Symbol(
            "rho", _product("ρ", k, v), "query and value along each other", _arrows("k", "v")
        ),
        Symbol(
            "lambda",
            _row("<mi>σ</mi><mo>(</mo><mi>λ</mi><mi>u</mi><mo>)</mo>"),
            "inverse temperature (the paper: temperature), multiplies the scores u; large (full line), small (dashes)",
            _steps(),
        ),
        Symbol(
            "signal",
            _row("<mi>s</mi><mo>=</mo>", _ROOT),
            "(unless given) how far along k* the informative token stands from the others",
            _bells(1.0, "s"),
        ),
        Symbol(
            "gamma",
            _row(_letter("γ")),
            "spread of the informative token (dashes); the others have 1",
            _bells(0.55, "γ"),
        ),
    )


def key(figure: Figure) -> list[tuple[Markup, str]]:
    """What the colours of a figure stand for, where it says so: a swatch and a word each."""
    return [(_swatch(i), word) for i, word in enumerate(figure.meanings) if word]


def outcome_key() -> list[tuple[Markup, str]]:
    """The colours that runs have in every figure, by how they ended."""
    words: dict[int, list[str]] = {}
    for word, color in OUTCOMES.items():
        words.setdefault(color, []).append(word)
    return [(_swatch(color), ", ".join(names)) for color, names in words.items()]


def _swatch(i: int) -> Markup:
    """A piece of line in a colour of the palette; its black is the page's ink."""
    from attnscope.figures.render_matplotlib import INK, color_of

    color = color_of(i)
    ink = "currentColor" if color == INK else color
    line = f'<line x1="0" y1="5" x2="22" y2="5" stroke="{ink}" stroke-width="4"/>'
    return Markup(
        f'<svg viewBox="0 0 22 10" width="22" height="10" aria-hidden="true">{line}</svg>'
    )


def _svg(body: str) -> Markup:
    size = f'viewBox="0 0 {PICTURE_WIDTH} {PICTURE_HEIGHT}" width="{PICTURE_WIDTH}" height="{PICTURE_HEIGHT}"'
    return Markup(f'<svg {size} aria-hidden="true">{body}</svg>')


def _line(points: list[tuple[float, float]], dashed: bool = False, width: float = 1.5) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    ink = f'fill="none" stroke="currentColor" stroke-width="{width}"'
    return f'<polyline points="{path}" {ink}{dash}/>'


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" fill="currentColor">{words}</text>'


def _arrow(angle: float, label: str) -> str:
    """From the lower left corner; the label at the head says whose it is."""
    length = 58.0
    x, y = 18 + length * cos(angle), PICTURE_HEIGHT - 12 - length * sin(angle)
    head = [
        (x - 7 * cos(angle + turn), y + 7 * sin(angle + turn)) for turn in (-pi / 7, pi / 7)
    ]
    shaft = _line([(18, PICTURE_HEIGHT - 12), (x, y)], dashed=label.endswith("*"))
    return shaft + _line([head[0], (x, y), head[1]]) + _text(x + 4, y + 3, label)


def _arrows(learned: str, other: str) -> Markup:
    """Two unit vectors, and what the first has along the second, as a thick line."""
    low, high = pi / 24, pi / 24 + pi / 4.5
    reach = 58.0 * cos(high - low)
    foot = (18 + reach * cos(low), PICTURE_HEIGHT - 12 - reach * sin(low))
    head = (18 + 58 * cos(high), PICTURE_HEIGHT - 12 - 58 * sin(high))
    shadow = _line([(18, PICTURE_HEIGHT - 12), foot], width=4) + _line(
        [head, foot], width=0.7
    )
    return _svg(f'<g opacity=".3">{shadow}</g>' + _arrow(low, other) + _arrow(high, learned))


def _curve(of: list[float], low: float, high: float, dashed: bool) -> str:
    """Values between `low` and `high` across the whole picture."""
    across = [8 + (PICTURE_WIDTH - 16) * i / (CURVE_POINTS - 1) for i in range(CURVE_POINTS)]
    up = [PICTURE_HEIGHT - 10 - (PICTURE_HEIGHT - 22) * (y - low) / (high - low) for y in of]
    return _line(list(zip(across, up)), dashed)


def _grid(low: float, high: float) -> list[float]:
    return [low + (high - low) * i / (CURVE_POINTS - 1) for i in range(CURVE_POINTS)]


def _steps() -> Markup:
    steep = [erf(4 * u) for u in _grid(-2, 2)]
    gentle = [erf(0.7 * u) for u in _grid(-2, 2)]
    return _svg(_curve(steep, -1, 1, False) + _curve(gentle, -1, 1, True))


def _bells(spread: float, label: str) -> Markup:
    """Scores along k*: of the other tokens about 0, of the informative one about s."""
    grid = _grid(-3, 7)
    others = [exp(-u * u / 2) for u in grid]
    informative = [exp(-((u - 4) ** 2) / 2 / spread**2) for u in grid]
    scale = (PICTURE_WIDTH - 16) / 10  # pixels of a unit
    zero, s = 8 + 3 * scale, 8 + 7 * scale
    ends, height = {"s": ((zero, s), 7), "γ": ((s, s + spread * scale), 35)}[label]
    measure = _line([(x, height) for x in ends], width=3)
    body = _curve(others, 0, 1, False) + _curve(informative, 0, 1, True)
    return _svg(body + measure + _text(ends[1] + 5, height + 4, label))
