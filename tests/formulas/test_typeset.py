"""Formulas in sentences: what is one, and how it is set."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from attnscope.claims.registry import all_claims
from attnscope.formulas.typeset import formulas, inks, plain, typeset

FORMULAS = {
    "the risk is gamma^2 - gamma^4/(L-1+gamma^2), which": ["gamma^2 - gamma^4/(L-1+gamma^2)"],
    "with a token of 100,000 others, a = 1/4 and 0.4": ["a = 1/4"],
    "A net does; A = I/h_L with a net": ["A = I/h_L"],
    "one-dimensional, Cramér-Rao, softmax-1 and max-type": [],
    "k = K Q^T a and one value": ["k = K Q^T a"],
    "a share of 0.0036 (d = 50) and 111 (0)": ["(d = 50)"],
    "r_l e_{m-1}(r without l)/e_m(r). One": ["r_l e_{m-1}(r without l)/e_m(r)"],
    "(content, position) pairs of [CLS]": [],
    "costs p_i p_j/(p_i + p_j) |post_i - post_j|^2 in": [
        "p_i p_j/(p_i + p_j) |post_i - post_j|^2"
    ],
    "f(q) + (h/2)(Laplacian f + 2 <grad f, grad log p>)(q) + O(h^2) for": [
        "f(q) + (h/2)(Laplacian f + 2 <grad f, grad log p>)(q) + O(h^2)"
    ],
    "the token's mean. v.k* = .630, with": ["v.k* = .630"],
    "converges to +-(k*, v*)": ["+-(k*, v*)"],
}


@pytest.mark.parametrize("sentence", FORMULAS)
def test_formulas_are_told_from_words(sentence):
    assert formulas(sentence) == FORMULAS[sentence]
    assert ElementTree.fromstring(f"<p>{typeset(sentence)}</p>").tag == "p"


def test_every_sentence_of_a_claim_is_well_formed_and_keeps_its_words():
    """What is no formula is unchanged, and every formula is closed."""
    for claim in all_claims():
        for sentence in (claim.words, claim.hypotheses, claim.condition):
            tree = ElementTree.fromstring(f"<p>{typeset(sentence)}</p>")
            parts = [part.get("alttext", "") + (part.tail or "") for part in tree]
            assert _signs((tree.text or "") + "".join(parts)) == _signs(sentence)
            assert [part.tag for part in tree] == ["math"] * len(formulas(sentence))


def _signs(text: str) -> str:
    for typed, sign in (("->", "→"), (">=", "≥"), ("<=", "≤"), ("+-", "±")):
        text = text.replace(typed, sign)
    return text


def test_powers_roots_and_greek_letters_are_set():
    assert "<msup><mrow><mi>erf</mi>" in typeset("erf(1/2)^2")  # the power of all of it
    html = str(typeset("sqrt(nu) k* and d^-a, 1e-6"))
    assert "<msqrt><mrow><mrow><mi>ν</mi></mrow></mrow></msqrt>" in html
    assert "<msup><mi>k</mi><mo>*</mo></msup>" in html
    assert "<msup><mi>d</mi><mrow><mo>−</mo><mi>a</mi></mrow></msup>" in html
    assert "<msup><mn>10</mn><mrow><mo>−</mo><mn>6</mn></mrow></msup>" in html


def test_parts_in_a_colour():
    typed = r"here \key{kappa} = k.k*, \value{words & nu} and sqrt(d) \value{v*}.x_l"
    html = str(typeset(typed))
    ElementTree.fromstring(f"<p>{html}</p>")
    assert '<mrow class="ink-key"><mi>κ</mi></mrow><mo>=</mo>' in html
    assert '<span class="ink-value">words &amp; <math alttext="nu">' in html
    assert formulas(typed)[-1] == r"sqrt(d) \value{v*}.x_l" and "\\" not in html
    assert inks(typed) == ["key", "value", "value"]
    assert plain(typed) == "here kappa = k.k*, words & nu and sqrt(d) v*.x_l"
