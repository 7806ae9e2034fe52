"""Claims of a paper with what is known about each: evidence of a stored run, or what checks it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from exactformer.experiments.engine import presentation
from exactformer.experiments.engine.verdict import Verdict
from exactformer.studio import markup
from exactformer.studio.database.library import Claim, Paper
from exactformer.studio.services import evidence
from exactformer.studio.services.evidence import Evidence

CHECKED = "checked"
OPEN = "not checked"
# In the order of a summary: what a claim can be, and the tone it is shown in.
TONES = {**presentation.TONES, CHECKED: "accent", OPEN: "plain"}

# With this ``Claim.checked_by`` begins where a claim does not hold as printed, but after a change.
_CORRECTED = "Corrected: "


@dataclass(frozen=True)
class ClaimView:
    """A claim as its card shows it."""

    claim: Claim
    evidence: Evidence | None

    @property
    def status(self) -> str:
        """What came of the claim: the stored run's verdict, or whether something checks it.

        A run that tests nothing of the paper decides only where nothing else checks the claim.
        """
        verdict = self.evidence.shown.verdict if self.evidence is not None else OPEN
        if verdict not in (OPEN, Verdict.BEYOND) or not self.claim.checked_by:
            return verdict
        return str(Verdict.CORRECTED) if self.claim.checked_by.startswith(_CORRECTED) else CHECKED

    @property
    def tone(self) -> str:
        """How the status is coloured."""
        return TONES[self.status]

    @property
    def statement(self) -> Markup:
        """The claim's statement as HTML."""
        return markup.render(self.claim.statement)

    @property
    def checked_by(self) -> Markup:
        """What checks the claim, as HTML."""
        return markup.render(self.claim.checked_by.removeprefix(_CORRECTED))


def views(paper: Paper, results: Path | None) -> list[ClaimView]:
    """Return the claims of ``paper`` with the evidence in ``results``."""
    return [ClaimView(claim, evidence.of_claim(results, claim)) for claim in paper.claims]


def tally(claims: list[ClaimView]) -> list[tuple[str, str, int]]:
    """Return each status that occurs, its tone, and how many claims have it."""
    return presentation.tally([view.status for view in claims], TONES)
