"""Titles and the like: one line of plain text in which ``$…$`` is mathematics."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_MATHEMATICS = re.compile(r"\$([^$]+)\$")


_DRESS = re.compile(r"\\(?:mathcal|mathbb|mathrm|mathbf|text|operatorname|left|right)\b|[{}]")


def plain(text: str) -> str:
    r"""Return ``text`` without dollars and commands, for places in which nothing can be drawn.

    >>> plain(r"$\mathcal{O}(n)$ connections, $\xi^2$")
    'O(n) connections, xi^2'
    """
    return _MATHEMATICS.sub(lambda found: _DRESS.sub("", found[1]).replace("\\", ""), text)


def typeset(text: str) -> Markup:
    """Return ``text`` as safe HTML; the browser draws what stands between dollars.

    >>> typeset("the $n$ < 2")
    Markup('the <span class="math">n</span> &lt; 2')
    """
    parts = _MATHEMATICS.split(text)
    return Markup("").join(
        Markup('<span class="math">{}</span>').format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )
