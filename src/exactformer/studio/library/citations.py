"""How to cite a paper or one of its claims: a line for a text, an entry for BibTeX."""

from __future__ import annotations

from exactformer.studio.library.exporting import bibtex
from exactformer.studio.library.paper_records import record
from exactformer.studio.library.records import PaperRecord
from exactformer.studio.library.tables import Claim, Paper

MOST_NAMES = 8


def line(paper: Paper, claim: Claim | None = None) -> str:
    """Return a reference as it stands in a list, to a claim of ``paper`` if one is given."""
    names = [place.person.name for place in paper.authorships]
    who = ", ".join(names[:MOST_NAMES]) + (" and others" if len(names) > MOST_NAMES else "")
    places = [
        paper.source if not paper.arxiv_id or "arxiv" not in paper.source.lower() else "",
        f"arXiv:{paper.arxiv_id}" if paper.arxiv_id else "",
        f"doi:{paper.doi}" if paper.doi else "",
    ]
    sentence = f"{who} ({paper.year or 'undated'}). " if who else ""
    sentence += paper.title.rstrip(".") + "." if paper.title[-1:] not in "?!" else paper.title
    if where := ", ".join(filter(None, places)):
        sentence += f" {where}."
    return f"{sentence} {claim.title.partition(':')[0]}." if claim else sentence


def entry(paper: Paper) -> str:
    """Return the BibTeX entry of a paper whose parts are loaded, without abstract and keywords."""
    whole = record(paper)
    brief = PaperRecord(
        **{name: getattr(whole, name) for name in ("title", "authors", "year", "kind", "source")},
        **{name: getattr(whole, name) for name in ("doi", "arxiv_id", "url")},
    )
    return "".join(bibtex.written([(paper.slug, brief)])).strip()
