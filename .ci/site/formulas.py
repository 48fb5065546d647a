"""Formulas as MathML, which browsers draw by themselves: with no script from elsewhere, so offline too."""

import re

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)

SIZES = r"\\[bB]ig+[lrm]?\b"
"""How LaTeX is told the height of a bracket; MathML finds it by itself."""


def mathml(formula: str, display: bool) -> str:
    """A formula inside a line, or one that has lines of its own. MathError if it has what nobody knows."""
    return tex2mathml(re.sub(SIZES, "", formula), as_block=display)


def draw(display: bool):
    """A visitor of formulas of either kind."""

    def visit(writer, node):
        try:
            writer.body.append(mathml(node.astext(), display))
        except MathError as error:
            logger.warning("a formula that cannot be drawn: %s", error, location=node)
        raise SkipNode

    return visit


def setup(app) -> None:
    app.add_html_math_renderer("mathml", (draw(display=False), None), (draw(display=True), None))
