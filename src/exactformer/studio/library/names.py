"""Names of works and people in one spelling: how the same thing, written twice, is recognised.

Identifiers lose their dress (``https://doi.org/10.1/X`` and ``doi:10.1/x`` are one DOI, arXiv
versions are one paper); titles and names lose case, accents, TeX and punctuation.
"""

from __future__ import annotations

import re
import unicodedata

_DOI = re.compile(r"10\.\d{4,9}/\S+")
_ARXIV = re.compile(r"(?:\d{4}\.\d{4,5}|[a-z][a-z.\-]*/\d{7})(?=v\d+$|$)")
_ARXIV_DOI = re.compile(r"10\.48550/arxiv\.(.+)")
_ORCID = re.compile(r"\d{4}-\d{4}-\d{4}-\d{3}[\dX]")
_TEX_COMMAND = re.compile(r"\\[a-zA-Z]+")
_NO_WORD = re.compile(r"[\W_]+")


def folded(text: str) -> str:
    """Return ``text`` without case and accents."""
    if text.isascii():
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.replace("ł", "l").replace("Ł", "L"))
    return "".join(c for c in letters if not unicodedata.combining(c)).casefold()


def words(text: str) -> list[str]:
    r"""Return the words of ``text`` without case, accents, TeX or punctuation.

    >>> words(r"$\\mathcal{O}(n)$ Connections: Gözde's “Émile”")
    ['o', 'n', 'connections', 'gozde', 's', 'emile']
    """
    return _NO_WORD.sub(" ", folded(_TEX_COMMAND.sub(" ", text))).split()


def normalised(text: str) -> str:
    """Return the spelling in which two titles or names are compared; never empty unless text is."""
    return " ".join(words(text)) or text.casefold().strip()


def family_name(name: str) -> str:
    """Return the part of a name by which lists are ordered.

    >>> family_name("Aidan N. Gomez"), family_name("Gomez, A. N.")
    ('gomez', 'gomez')
    """
    before, comma, _ = name.partition(",")
    words = normalised(before).split()
    return (" ".join(words) if comma else words[-1]) if words else ""


def slugified(text: str, length: int = 100) -> str:
    """Return ``text`` as lower-case ASCII words joined by hyphens, cut between words.

    >>> slugified("Fang 2022: Attention enables zero approximation error", 30)
    'fang-2022-attention-enables'
    """
    ascii_only = normalised(text).encode("ascii", "ignore").decode()
    slug = "-".join(_NO_WORD.sub(" ", ascii_only).split())
    if len(slug) > length:
        slug = slug[: length + 1].rpartition("-")[0] or slug[:length]
    return slug


def doi(text: str) -> str | None:
    """Return the DOI in ``text``, in lower case.

    >>> doi("https://doi.org/10.1016/J.MATPUR.2021.07.009")
    '10.1016/j.matpur.2021.07.009'
    """
    found = _DOI.search(text.strip())
    return found[0].rstrip(".,;").lower()[:200] if found else None


def arxiv_id(text: str) -> str | None:
    """Return the arXiv identifier at the end of ``text``, without its version.

    >>> arxiv_id("http://arxiv.org/abs/2202.12166v2"), arxiv_id("arXiv:math/0309136")
    ('2202.12166', 'math/0309136')
    """
    text = text.strip().removesuffix(".pdf")
    tail = re.split(r"abs/|pdf/|arxiv[:.]", text, flags=re.IGNORECASE)[-1].strip().lower()
    found = _ARXIV.match(tail)
    return found[0] if found and len(found[0]) <= 40 else None


def arxiv_id_of_doi(identifier: str | None) -> str | None:
    """Return the arXiv identifier that a DOI given out by arXiv holds."""
    found = _ARXIV_DOI.fullmatch(identifier or "")
    return arxiv_id(found[1]) if found else None


def orcid(text: str) -> str | None:
    """Return the ORCID in ``text``."""
    found = _ORCID.search(text.upper())
    return found[0] if found else None


def web_address(text: str) -> str:
    """Return ``text`` if a browser may follow it (http, https, no blanks, no more than 500)."""
    text = text.strip()
    safe = re.fullmatch(r"https?://[^\s<>\"\\]+", text, flags=re.IGNORECASE)
    return text if safe and len(text) <= 500 else ""
