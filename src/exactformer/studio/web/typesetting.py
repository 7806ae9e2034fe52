"""Titles and the like: one line of plain text in which ``$…$`` is mathematics."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_MATHEMATICS = re.compile(r"\$([^$]+)\$")


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
