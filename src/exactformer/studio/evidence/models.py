"""What the API answers about claims, the evidence for them, and runs of experiments."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from exactformer.experiments.engine.provenance import Provenance
from exactformer.studio.evidence.claims import ClaimView
from exactformer.studio.evidence.evidence import Evidence
from exactformer.studio.web.types import LengthOf, Out


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


Finite = Annotated[float | None, BeforeValidator(_finite)]
"""A number of a run; none where it diverged."""


class ClaimOut(BaseModel):
    """A claim of a paper, and what came of it."""

    paper: str
    anchor: str
    kind: str
    title: str
    statement: str
    status: str
    beyond_paper: bool
    experiment: str | None
    page: str


class RunLineOut(BaseModel):
    """A quantity, in words as pages show it."""

    label: str
    published: str
    ours: str
    now: str


class RunStatementOut(BaseModel):
    """A statement of the claim, and whether it held."""

    text: str
    holds: bool


class RunOut(BaseModel):
    """A run of an experiment at smoke scale; ``none`` where none was begun since the server started."""

    experiment: str
    state: Literal["none", "waiting", "running", "finished", "failed"]
    done: int
    total: int
    problem: str
    rows: list[RunLineOut]
    statements: list[RunStatementOut]


class RowOut(Out):
    """A published value beside ours; null where a run diverged or there is none."""

    label: str
    place: str
    published: float | str | None
    ours: Annotated[Finite, Field(validation_alias="mean")]
    spread: Finite
    ratio: Finite
    seeds: Annotated[LengthOf, Field(validation_alias="values")]
    verdict: str
    why: str
    beyond_paper: Annotated[bool, Field(validation_alias="ours")]


class StatementOut(Out):
    """A statement that a run tests."""

    text: str
    holds: bool
    beyond_paper: bool
    errata: str


@dataclass(frozen=True)
class ProvenanceOut(Provenance):
    """How, by what, on what and when a run was made."""

    seeds: tuple[int | str | None, ...]
    scale: str


class EvidenceOut(Out):
    """What the stored run of an experiment shows: words as on pages, numbers as they are."""

    experiment: str
    title: str
    claim: str
    source: str
    status: str
    why: str
    counts: str
    command: str
    rows: list[RowOut]
    statements: list[StatementOut]
    provenance: ProvenanceOut | None
    figures: list[str]
    figure_size: tuple[int, int] | None


class ClaimEvidenceOut(Out):
    """A claim, and what came of it."""

    anchor: str
    kind: str
    title: str
    statement: str
    checked_by: str
    status: str
    evidence: EvidenceOut | None


def claim_evidence(view: ClaimView) -> ClaimEvidenceOut:
    """A claim with what the stored run shows."""
    claim = view.claim
    return ClaimEvidenceOut(
        anchor=claim.anchor,
        kind=claim.kind,
        title=claim.title,
        statement=claim.statement,
        checked_by=claim.checked_by,
        status=view.status,
        evidence=shown_evidence(view.evidence) if view.evidence else None,
    )


def shown_evidence(found: Evidence) -> EvidenceOut:
    """What a stored run shows, for programs."""
    shown, result = found.shown, found.result
    rows = result.summary.rows if result else ()
    return EvidenceOut(
        experiment=shown.name,
        title=shown.title,
        claim=shown.claim,
        source=shown.source,
        status=shown.verdict,
        why=shown.why,
        counts=shown.counts,
        command=shown.command,
        rows=list(map(RowOut.model_validate, rows)),
        statements=[
            StatementOut(text=part.text, holds=holds, beyond_paper=part.ours, errata=part.errata)
            for part, holds in (result.tested if result else [])
        ],
        provenance=ProvenanceOut(**asdict(result.provenance), scale=result.scale)
        if result
        else None,
        figures=[f"/figures/{shown.name}.{kind}" for kind in found.figures],
        figure_size=found.figure_size,
    )
