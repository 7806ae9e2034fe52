"""Proposals: what a pasted text says, what curators make of it, and who hears of that."""

from __future__ import annotations

import pytest

from exactformer.studio.errors import ConflictError, ForbiddenError, InvalidError, LoginNeededError
from exactformer.studio.library.tables import Paper
from exactformer.studio.notices import service as notices
from exactformer.studio.proposals import service
from exactformer.studio.security.actor import VISITOR
from tests.studio.support.desks import fill_desk

BIBTEX = "@article{n, title = {Notes on $x^2$}, author = {Noether, Emmy}, year = 1921}"


@pytest.mark.parametrize(
    ("pasted", "fields"),
    [
        ("1706.03762", {"arxiv_id": "1706.03762", "url": "https://arxiv.org/abs/1706.03762"}),
        ("https://arxiv.org/pdf/1706.03762v2.pdf", {"arxiv_id": "1706.03762"}),
        ("10.48550/arXiv.1706.03762", {"arxiv_id": "1706.03762"}),
        ("https://doi.org/10.1000/XYZ123", {"doi": "10.1000/xyz123"}),
        ("https://example.org/paper", {"url": "https://example.org/paper"}),
    ],
)
def test_an_identifier_is_kept_and_the_rest_is_filled_in_by_hand(desk, pasted, fields):
    reading = service.read(desk.db, f"  {pasted}\n")
    assert fields.items() <= reading.fields.items()
    assert "by hand" in reading.note
    assert "title" not in reading.fields


def test_a_record_fills_in_everything(desk):
    reading = service.read(desk.db, BIBTEX)
    assert (reading.fields["title"], reading.fields["year"]) == ("Notes on $x^2$", 1921)
    assert (reading.paper, reading.note) == (None, "")


@pytest.mark.parametrize(
    ("pasted", "why"),
    [
        ("", "Paste"),
        ("javascript:alert(1)", "is not an arXiv id"),
        ("file:///etc/passwd", "is not an arXiv id"),
        ("hello", "is not an arXiv id"),
        ("hello there", "neither BibTeX nor JSON"),
        (BIBTEX + BIBTEX.replace("{n,", "{m,"), "one at a time"),
        ("x" * 20_001, "the limit is 20,000"),
    ],
)
def test_what_names_no_paper_is_refused(desk, pasted, why):
    with pytest.raises(InvalidError, match=why):
        service.read(desk.db, pasted)


def test_what_is_here_already_is_shown(desk):
    desk.paper.arxiv_id = "1706.03762"
    desk.db.flush()
    assert service.read(desk.db, "arXiv:1706.03762v3").paper is desk.paper
    known = "@misc{a, title = {Something}, eprint = {1706.03762}, archivePrefix = {arXiv}}"
    assert service.read(desk.db, known).paper is desk.paper
    with pytest.raises(ConflictError, match="has this paper already"):
        service.propose(desk.db, desk.bob, {"title": "x", "arxiv_id": "1706.03762"})


def test_readers_propose_and_curators_decide(library):
    desk = fill_desk(library)
    papers = desk.count(Paper)
    fields = service.read(desk.db, BIBTEX).fields
    proposal = service.propose(desk.db, desk.bob, fields)
    other = service.propose(desk.db, desk.bob, {"title": "Spam"})
    assert desk.count(Paper) == papers
    assert service.listing(desk.db, desk.ada, "open", 10).total == 0
    assert service.listing(desk.db, desk.curator, "open", 10).total == 2
    with pytest.raises(ForbiddenError):
        service.decide(desk.db, desk.bob, proposal.id, "accepted")
    service.decide(desk.db, desk.curator, proposal.id, "accepted")
    service.decide(desk.db, desk.curator, other.id, "declined")
    with pytest.raises(ConflictError, match="accepted meanwhile"):
        service.decide(desk.db, desk.admin, proposal.id, "declined")
    assert desk.count(Paper) == papers + 1
    (declined, accepted) = notices.listing(desk.db, desk.bob, 10).items
    assert (declined.title, declined.href) == ("Spam", "/proposals")
    assert accepted.href == f"/papers/{proposal.paper.slug}"
    assert "paper.add" in desk.actions()


def test_a_proposal_has_a_title_no_claims_and_a_limit(desk, monkeypatch):
    with pytest.raises(InvalidError, match="title"):
        service.propose(desk.db, desk.bob, {"doi": "10.1000/x"})
    claim = {"anchor": "theorem-1", "kind": "theorem", "title": "All is well"}
    kept = service.propose(desk.db, desk.bob, {"title": "Mine", "claims": [claim]})
    assert "claims" not in kept.record
    with pytest.raises(LoginNeededError):
        service.propose(desk.db, VISITOR, {"title": "Mine"})
    monkeypatch.setattr(service, "MOST_OPEN", 1)
    with pytest.raises(ConflictError, match="wait already"):
        service.propose(desk.db, desk.bob, {"title": "Another"})
