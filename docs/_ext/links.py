"""Links that nobody has to write: ids of claims (slr-13) lead to the list of claims, public names
(`at.risk`, `stationary_points`) to the reference, on every page.

A name of one small word is linked with its `at.` alone: `risk` or `train` may be a command. An id
that looks like a claim's and is none is a warning.
"""

import re

import api
from docutils import nodes
from sphinx.util import logging

from attnscope.claims.registry import own_claims
from attnscope_claims import FAMILIES

logger = logging.getLogger(__name__)

CLAIMS = "generated/all_claims"
CLAIM = re.compile(rf"\b(?:{'|'.join(FAMILIES)})-\d\d(?:-[a-z0-9]+)*\b")
CALL = re.compile(r"(at\.)?(\w+)(\(.*)?", re.DOTALL)
# where a link would be wrong or ugly
CLOSED = (nodes.reference, nodes.literal_block, nodes.title, nodes.raw, nodes.comment)


def short(claim_id):
    """slr-13 of slr-13-swapped-beats-oracle: what anchors are called."""
    return "-".join(claim_id.split("-")[:2])


def known():
    return {short(claim.id) for claim in own_claims()}


def resolve(app, doctree, docname):
    """Put the links in."""
    ids = known()
    for text in list(doctree.findall(nodes.Text)):
        if not inside(text, CLOSED) and not inside(text, (nodes.literal,)):
            link_claims(app, docname, text, ids)
    for literal in list(doctree.findall(nodes.literal)):
        if not inside(literal, CLOSED):
            link_literal(app, docname, literal, ids)


def inside(node, kinds):
    """Whether a node stands in one of these."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def link_claims(app, docname, text, ids):
    parts = []
    end = 0
    for found in CLAIM.finditer(text.astext()):
        if short(found[0]) not in ids:
            logger.warning(f"no claim is called {found[0]}", location=text.parent)
            continue
        parts += [nodes.Text(text[end : found.start()])]
        parts += [reference(app, docname, CLAIMS, short(found[0]), nodes.Text(found[0]))]
        end = found.end()
    if parts:
        text.parent.replace(text, [*parts, nodes.Text(text[end:])])


def link_literal(app, docname, literal, ids):
    text = literal.astext()
    claim = CLAIM.fullmatch(text)
    if claim and short(text) in ids:
        target = (CLAIMS, short(text))
    else:
        target = named(text)
    if target is not None and target[0] != docname:
        link = reference(app, docname, *target, literal.deepcopy())
        literal.parent.replace(literal, link)


def named(text):
    """(page, id) of a public name in code, or None."""
    found = CALL.fullmatch(text)
    if found is None or found[2] not in TARGETS:
        return None
    plain_word = found[2].islower() and "_" not in found[2]
    return None if plain_word and not found[1] else TARGETS[found[2]]


def reference(app, docname, page, anchor, inner):
    uri = app.builder.get_relative_uri(docname, page)
    return nodes.reference("", "", inner, internal=True, refuri=f"{uri}#{anchor}")


TARGETS = api.where()


def setup(app):
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
