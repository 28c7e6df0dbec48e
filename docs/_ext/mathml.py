"""A math renderer for Sphinx that writes MathML, which browsers draw themselves: no script, no
font, no request.

`latex2mathml` leaves some things to the browser that MathML Core, which browsers implement, does
not know; `mended` says them in its words: the alphabets of \\mathbb and \\mathbf are characters of
their own, names of functions need their thin spaces, \\sim and \\perp are relations, the bars of
|x| stand close to what they enclose (a conditional bar is \\mid, and has its spaces), a slash close
to what it divides, dots, bars and tildes are accents, and a prime, whose character is small and
high already, must not be made smaller as an exponent.
"""

import re
from html import escape
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)

# older than the block with the others
DOUBLE = {"C": "ℂ", "N": "ℕ", "P": "ℙ", "Q": "ℚ", "R": "ℝ", "Z": "ℤ"}
DOUBLE |= {
    letter: chr(0x1D538 + i)
    for i, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    if letter not in DOUBLE
}
DOUBLE |= {digit: chr(0x1D7D8 + i) for i, digit in enumerate("0123456789")}
BOLD = {letter: chr(0x1D400 + i) for i, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}
BOLD |= {letter: chr(0x1D41A + i) for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
BOLD |= {digit: chr(0x1D7CE + i) for i, digit in enumerate("0123456789")}
ALPHABETS = {"double-struck": DOUBLE, "bold": BOLD}
FUNCTIONS = "arcsin|arccos|arctan|arg|log|ln|exp|sinh|cosh|tanh|sin|cos|tan|det|dim|ker"
# \sim, \perp, \setminus
RELATIONS = {"&#x0007E;": "&#x0223C;", "&#x027C2;": "&#x027C2;", "&#x029F5;": "&#x02216;"}

MATH = "{http://www.w3.org/1998/Math/MathML}"
SCRIPTS = tuple(f"{MATH}{name}" for name in ("msup", "msub", "msubsup"))
OPENING = "([{⟨⌊⌈"
CLOSING = ")]}⟩⌋⌉"
ACCENTS = "&#x002D9;|&#x000A8;|&#x000AF;|&#x0007E;"  # dot, two dots, bar, tilde


def mended(markup):
    letter = lambda m: (
        f'<{m[1]} mathvariant="normal">{ALPHABETS[m[2]].get(m[3], m[3])}</{m[1]}>'
    )
    markup = re.sub(r'<(m[in]) mathvariant="(double-struck|bold)">(\w)</\1>', letter, markup)
    markup = re.sub(
        rf"<mi>\\?({FUNCTIONS})</mi>",
        r'<mo lspace="0.167em" rspace="0.167em">\1</mo>',
        markup,
    )
    markup = re.sub(
        r"<mi>(&#x\w+;)</mi>",
        lambda m: f"<mo>{RELATIONS[m[1]]}</mo>" if m[1] in RELATIONS else m[0],
        markup,
    )
    markup = re.sub(
        rf"<mover>(<mi>[^<]*</mi><mo[^>]*>(?:{ACCENTS}))", r'<mover accent="true">\1', markup
    )
    prime = r'<mrow>\1<mo lspace="0" rspace="0">\2</mo></mrow>'
    markup = re.sub(r"<msup>(<mi>[^<]*</mi>)<mi>(&#x0203[23];)</mi></msup>", prime, markup)
    markup = markup.replace(
        "<mo>&#x0002F;</mo>", '<mo lspace="0.05em" rspace="0.05em">/</mo>'
    )
    return re.sub(
        r"<mo(?: stretchy=\"false\")?>&#x0007C;</mo>",
        '<mo lspace="0" rspace="0" stretchy="false">|</mo>',
        markup,
    )


def mathml(node, display):
    latex = node.astext().strip()
    try:
        return mended(convert(latex, display="block" if display else "inline"))
    except (
        Exception
    ) as error:  # the converter raises its own kinds; any of them is a mistake in the page
        logger.warning(f"cannot typeset {latex!r}: {error!r}", location=node)
        return f"<code>{escape(latex)}</code>"


# after which a formula in a sentence may go on in the next line: relations, + and -, commas; each
# with its space on both sides, which the last sign of a piece would lose
BREAKS = (
    dict.fromkeys("=<>≤≥≈∼→∈∝≪≫↦⇒", "0.278em")
    | dict.fromkeys("+−±", "0.222em")
    | {",": "0.167em"}
)
SHORT = 8  # signs at the top of a formula that fit any line


def in_pieces(markup):
    """A formula of a sentence as several, between which a line may be broken: browsers break none.

    Only between brackets of the formula's own level: what stands in brackets stays together.
    """
    try:
        math = ElementTree.fromstring(markup)
    except ElementTree.ParseError:
        return markup
    row = math[0] if len(math) == 1 and math[0].tag == f"{MATH}mrow" else math
    if len(row) <= SHORT:
        return markup
    pieces = [[]]
    depth = 0
    bars = 0
    before = ""
    for i, part in enumerate(row):
        sign = sign_of(part)
        depth += (sign in OPENING) - (sign in CLOSING) if sign else 0
        bars += sign == "|" and depth == 0
        pieces[-1].append(part)
        # a sign at the beginning, or after another one, is the number's own
        binary = sign == "," or (
            i > 0 and (before == "" or before in CLOSING or before == "|")
        )
        if (
            part.tag == f"{MATH}mo"
            and sign in BREAKS
            and depth == 0
            and bars % 2 == 0
            and binary
        ):
            part.set("lspace", "0" if sign == "," else BREAKS[sign])
            part.set("rspace", BREAKS[sign])
            part.set("form", "infix")
            pieces.append([])
        before = sign
    return "<wbr>".join(
        f'<math display="inline">{written(piece)}</math>' for piece in pieces if piece
    )


def sign_of(part):
    """The sign that an element is, or that its exponent stands on; "" for anything else."""
    inner = part[0] if part.tag in SCRIPTS and len(part) else part
    return (inner.text or "").strip() if inner.tag == f"{MATH}mo" else ""


def written(parts):
    """Elements as MathML of a page, without a namespace."""
    texts = [ElementTree.tostring(part, encoding="unicode") for part in parts]
    return (
        "<mrow>"
        + re.sub(r' xmlns(:\w+)?="[^"]*"|(?<=<)ns0:|(?<=</)ns0:', "", "".join(texts))
        + "</mrow>"
    )


def visit_inline(self, node):
    markup = in_pieces(mathml(node, display=False))
    if node.get("after"):
        *pieces, last = markup.split("<wbr>")
        last = f'<span class="kept">{last}{escape(node["after"])}</span>'
        markup = "<wbr>".join([*pieces, last])
    self.body.append(markup)
    raise nodes.SkipNode


def visit_block(self, node):
    self.body.append(f'<div class="math">{mathml(node, display=True)}</div>')
    raise nodes.SkipNode


def keep_punctuation(app, doctree, docname):
    """A comma or a full stop stays on the line of the formula before it: it becomes part of it."""
    for node in list(doctree.findall(nodes.math)):
        follower = node.next_node(descend=False, siblings=True)
        mark = (
            re.match(r"[,.;:?!)’”]+", follower) if isinstance(follower, nodes.Text) else None
        )
        if mark is not None:
            node["after"] = mark[0]
            follower.parent.replace(follower, nodes.Text(follower[mark.end() :]))


def setup(app):
    app.connect("doctree-resolved", keep_punctuation)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
