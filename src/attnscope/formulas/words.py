"""What formulas in sentences are made of (typeset.py): names as they are typed with what they stand
for, signs, and how a sentence is cut into pieces.
"""

from __future__ import annotations

import re

# names as they are typed, and what they stand for
GREEK = {
    name: chr(code)
    for names, first in (
        ("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi", 0x3B1),
        ("pi rho", 0x3C0),
        ("sigma tau upsilon phi chi psi omega", 0x3C3),
        ("Gamma Delta", 0x393),
        ("Sigma", 0x3A3),
        ("Phi", 0x3A6),
        ("Psi Omega", 0x3A8),
    )
    for code, name in enumerate(names.split(), first)
}
GREEK |= {"lam": "λ", "gam": "γ", "del": "δ", "eps": "ε", "Lambda": "Λ"}
WORD_SIGNS = {"infinity": "∞"}
SIGNS = {"Laplacian": "Δ", "grad": "∇", "sum": "∑", "sqrt": "√"}
FUNCTION_NAMES = (
    "log",
    "exp",
    "erf",
    "erfc",
    "softmax",
    "sigmoid",
    "tr",
    "sym",
    "Var",
    "tanh",
    "min",
    "max",
)
# functions that may stand before their argument without brackets
FUNCTIONS_WITHOUT_BRACKETS = ("log", "sqrt", "grad", "Laplacian")
RELATIONS = {"=": "=", "<": "&lt;", ">": "&gt;", "<=": "≤", ">=": "≥", "~": "∼", "->": "→"}
RELATIONS |= {"perp": "⊥", "..": "…"}
CLOSING = {"(": ")", "[": "]", "{": "}"}
# what may follow an "a" that is a letter and no article
WORDS_AFTER_LETTER = ("and", "or", "is", "at", "to", "from", "in", "of", "with", "for", "")
THIN_SPACE = '<mspace width=".17em"></mspace>'
INVISIBLE_TIMES = "<mo>⁢</mo>"

TOKEN = re.compile(
    r"(?P<number>(?:\d+(?:,\d{3})+|\d*\.\d+|\d+)(?:e[-+]?\d+)?)"
    r"|(?P<word>[^\W\d_]{2,}(?:-\w+)+|[^\W\d_]+(?:'[a-z]+)?\d*(?!\w)|[^\W\d_]+)"
    r"|(?P<sign>->|<=|>=|\.\.|\+-|\S)"
)
