"""A math renderer for Sphinx that writes MathML, which browsers draw themselves: no script, no font, no request."""

from html import escape

from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)


def mathml(node, display):
    latex = node.astext().strip()
    try:
        return convert(latex, display="block" if display else "inline")
    except Exception as error:  # the converter raises its own kinds; any of them is a mistake in the page
        logger.warning(f"cannot typeset {latex!r}: {error!r}", location=node)
        return f"<code>{escape(latex)}</code>"


def visit_inline(self, node):
    self.body.append(mathml(node, display=False))
    from docutils import nodes

    raise nodes.SkipNode


def visit_block(self, node):
    from docutils import nodes

    self.body.append(f'<div class="math">{mathml(node, display=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
