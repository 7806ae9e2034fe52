"""Demonstrations: which construction of the playground shows which claim of the shipped works.

A claim is named by its work and its anchor, a construction by the request that its page answers. Claims
about trained models and real data have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from urllib.parse import urlencode

from sqlalchemy import select
from sqlalchemy.orm import Session

from exactformer.studio.library import seeds
from exactformer.studio.library.tables import Claim, Paper
from exactformer.studio.playground.asking import NAMES
from exactformer.studio.playground.couplings import CouplingRequest
from exactformer.studio.playground.polynomial import PolynomialRequest
from exactformer.studio.playground.sequences import SequenceRequest
from exactformer.studio.storage.audit import AuditEntry

Request = PolynomialRequest | SequenceRequest | CouplingRequest
_PAGES = {
    PolynomialRequest: "polynomial",
    SequenceRequest: "sequences",
    CouplingRequest: "couplings",
}


@dataclass(frozen=True)
class Demonstration:
    """A construction that shows a claim; ``words`` say what to look at, ``view`` where."""

    words: str
    request: Request
    view: Mapping[str, str] = field(default_factory=dict)
    part: str = ""

    @property
    def page(self) -> str:
        """The page of the playground."""
        return _PAGES[type(self.request)]

    @property
    def address(self) -> str:
        """The address of that page, with everything it is asked for."""
        start = type(self.request)()
        asked = {
            NAMES.get(each.name, each.name): getattr(self.request, each.name)
            for each in fields(self.request)
            if getattr(self.request, each.name) != getattr(start, each.name)
        }
        query = urlencode({**asked, **self.view})
        return f"/playground/{self.page}?{query}" + (f"#{self.part}" if self.part else "")


_PAPER = PolynomialRequest("x^2 + x y", "1", "paper", "lattice")
_PARABOLOID = PolynomialRequest("x1^2 + x2^2")
_FIVE = PolynomialRequest("x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9", "4")
_AT = {"x": "0.6,0.4"}
_SORT = SequenceRequest()

SHOWN: dict[tuple[str, str], Demonstration] = {
    ("fang-2022", "figure-1"): Demonstration(
        "The architecture, box by box, with every matrix as printed.", _PAPER, _AT, "built"
    ),
    ("fang-2022", "lemma-3-1"): Demonstration(
        "Watch one block multiply: scores, the selected token, the product.",
        _PAPER,
        {**_AT, "step": "2"},
        "walk",
    ),
    ("fang-2022", "lemma-3-3"): Demonstration(
        "The same polynomial as powers along directions: change the directions.",
        PolynomialRequest("(x + 2 y)^3", "1", "scaled", "lattice"),
        {**_AT, "part": "readout"},
        "inside",
    ),
    ("fang-2022", "theorem-3-5"): Demonstration(
        "The paper's own construction. Type another polynomial.", _PAPER, _AT
    ),
    ("fang-2022", "theorem-3-5-rounding"): Demonstration(
        "The difference to the polynomial in single precision; enlarge the radius.",
        PolynomialRequest("x^4 - x^2 y^2", "4", "paper", "lattice", "float32"),
        {"x": "2,1", "show": "difference"},
        "surface",
    ),
    ("fang-2022", "corollary-3-7"): Demonstration(
        "The exponential function by a polynomial of degree 6, as a transformer.",
        PolynomialRequest("1 + x + x^2/2 + x^3/6 + x^4/24 + x^5/120 + x^6/720", "1", "chebyshev"),
        {"x": "0.7"},
        "surface",
    ),
    ("fang-2022", "figure-2"): Demonstration(
        "The paraboloid of the figure, without error: turn it.",
        _PARABOLOID,
        {"x": "0.6,0.4"},
        "surface",
    ),
    ("fang-2022", "table-1"): Demonstration(
        "The polynomial that the table's models learn, built without learning.", _FIVE
    ),
    ("fang-2022", "figure-3"): Demonstration(
        "The polynomial that the figure's models learn, built without learning.", _FIVE
    ),
    ("fang-2022", "table-2"): Demonstration(
        "The transformer that stands beside these networks.", _PARABOLOID, _AT
    ),
    ("fang-2022", "table-3"): Demonstration(
        "The transformer that stands beside these networks.", _FIVE
    ),
    ("yun-2020", "theorem-equivariant"): Demonstration(
        "Sorting, approximated: follow the tokens, then make the cells smaller.", _SORT
    ),
    ("yun-2020", "theorem-positions"): Demonstration(
        "A map that depends on positions, with positions added.",
        SequenceRequest("cumulative-sum", positional="yes"),
    ),
    ("yun-2020", "equivariance"): Demonstration(
        "Exchange two tokens: the outputs are exchanged, too.",
        SequenceRequest("sort", positional="no", input="0.9,0.2,0.5"),
    ),
    ("yun-2020", "lemma-contextual"): Demonstration(
        "The codes of the tokens, attention layer by attention layer.",
        SequenceRequest("sort", cells=4, form="paper"),
        {"step": "2"},
        "journey",
    ),
    ("so-2020", "lemma-quantise"): Demonstration(
        "Every token falls into its cell.", _SORT, {"step": "1"}, "journey"
    ),
    ("so-2020", "lemma-attention-layers"): Demonstration(
        "The attention layers of the proof, one after another.",
        SequenceRequest("sort", cells=4, form="paper"),
        {"step": "2"},
        "journey",
    ),
    ("so-2020", "lemma-interpolate"): Demonstration(
        "Values looked up by key; two tokens in one cell have no key, and give 0.",
        SequenceRequest("sort", cells=4, form="paper", input="0.1,0.6,0.9"),
        {"step": "99"},
        "journey",
    ),
    ("so-2020", "layer-counts"): Demonstration(
        "Layers counted in the paper's form; choose another form beside it.",
        SequenceRequest("sort", cells=4, form="paper"),
        {},
        "numbers",
    ),
    ("jiang-li-2023", "section-4-1"): Demonstration(
        "Without positions, exchanged inputs give exchanged outputs.",
        SequenceRequest("sort", positional="no", input="0.9,0.2,0.5"),
    ),
    ("jiang-li-2023", "theorem-4-1"): Demonstration(
        "A coupling with prescribed singular values: move the head size.", CouplingRequest()
    ),
    ("jiang-li-2023", "figure-1"): Demonstration(
        "A coupling of rank 2: a head of two dimensions loses nothing.",
        CouplingRequest("formula", formula="u v + (u - v)^2 - u^2 - v^2 + 1", head_dim=1),
    ),
    ("jiang-li-2023", "proposition-6-1"): Demonstration(
        "Attending to what came before is a coupling of slow decay.", CouplingRequest("step")
    ),
    ("jiang-li-2023", "proposition-6-3"): Demonstration(
        "The mixed kernel of appendix D.3: its rank is higher than that of its parts.",
        CouplingRequest("mixed", head_dim=2),
    ),
}
"""By work and anchor."""


@dataclass(frozen=True)
class ShownClaim:
    """A claim that a page of the playground shows."""

    title: str
    address: str
    demonstration: Demonstration


def of_paper(db: Session, paper: Paper) -> dict[str, Demonstration]:
    """Return the demonstrations of the claims of ``paper``, by anchor."""
    works = select(AuditEntry).where(
        AuditEntry.subject_kind == seeds.KIND, AuditEntry.subject_id == paper.id
    )
    found = {entry.detail["work"] for entry in db.scalars(works)}
    return {anchor: shown for (work, anchor), shown in SHOWN.items() if work in found}


def on_page(db: Session, page: str) -> list[ShownClaim]:
    """Return the claims that a page of the playground shows, in the order of the works."""
    papers = seeds.seeded(db)
    ids = {paper.id: work for work, paper in papers.items()}
    claims = db.scalars(select(Claim).where(Claim.paper_id.in_(ids)))
    known = {(ids[claim.paper_id], claim.anchor): claim for claim in claims}
    return [
        ShownClaim(known[key].title, address(papers[key[0]].slug, key[1]), shown)
        for key, shown in SHOWN.items()
        if shown.page == page and key in known
    ]


def address(slug: str, anchor: str) -> str:
    """Return the address of a claim's page."""
    return f"/papers/{slug}/claims/{anchor}"
