"""The check of a law's file by Coq, and what failed in our own words."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from exactformer.coq import program_law, sequence_law
from exactformer.coq.installation import Coq, built_library, built_rounding, find_coq
from exactformer.coq.law import PROOF, SOFT_PROOF
from exactformer.coq.rounding_law import ROUNDING_PROOF
from exactformer.errors import CertificationError

_DIAGNOSES = {
    PROOF: "Proof. intros. diagnose region. Abort.",
    SOFT_PROOF: "Proof. intros. diagnose_softly region tangent. Abort.",
    ROUNDING_PROOF: "Proof. intros. diagnose_rounding region. Abort.",
    program_law.PROOF: "Proof. diagnose_program order. Abort.",
    sequence_law.PROOF: "Proof. diagnose_cells. Abort.",
}
"""By the proof of a law: what prints the verdict in its place."""

_PASSED = ("Proved", "SoftProved", "RoundingProved", "AllCells")

_VERDICTS = {
    "WrongRow": "token {0}: its row of F does not have one entry per variable",
    "NotSelected": "block {0}, head {1}: token {2} is not shown to select itself on the region",
    "SignChanges": "block {0}, token {1}: the ReLU of unit {2} is not shown to keep its sign",
    "Differs": "output {0} is not the polynomial of the theorem",
    "WrongCount": "the theorem does not have one polynomial per output",
    "WrongOn": "the model does not give the program's output on {rest}",
    "NotFollowed": "there are too many inputs to compare one by one, and following what every position "
    "can hold does not suffice; use a smaller max_length or vocabulary",
    "WrongCell": "the model does not have the table's value in the cells {rest}",
    "NoGrid": "the grid is not the one that the statement speaks of",
    "BadGuess": "the polynomial in place of tanh is not shown to be close to it",
    "BadRow": "token {0}: its row of F does not have one entry per variable",
    "Irregular": "block {0}, heads from {1} on: they do not share keys and one output dimension",
    "Unattended": "block {0}, heads from {1} on: token {2} is not shown to attend to itself and one "
    "constant token, or to a single one",
    "Uncombined": "block {0}, heads from {1} on: what they give together is not bounded",
    "NotTarget": "output {0}: the linear parts do not give the polynomial of the theorem",
    "TooFar": "output {0}: the error is not shown to be as small as stated",
    "BadCount": "the theorem does not have one polynomial per output",
    "RoundingRefused": "the rounding error of the closed form is not shown to be as small as stated, "
    "or the closed form is not the polynomial of the theorem",
    **dict.fromkeys(_PASSED, "the weights pass, but the statement does not follow"),
}

_AXIOMS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
}
"""Those of Coq's own real numbers."""
_SOFT_AXIOMS = _AXIOMS | {"ClassicalDedekindReals.sig_not_dec", "Classical_Prop.classic"}
"""Coq's exponential, its mean value theorem and Flocq rest on two more."""


_ROUNDING = "Exactformer.rounding"


@dataclass(frozen=True)
class Checked:
    """What Coq accepted: its version, and the axioms that the theorem rests on."""

    version: str
    assumptions: str


def check_law(text: str, timeout: float | None = None) -> Checked:
    """Have Coq check the text of a law's file.

    Raises:
        CertificationError: if Coq refuses it, with the block, head and token if the checker names them.
        InputError: if there is no Coq.
    """
    coq = find_coq()
    answer = compiled(coq, text, timeout)
    if answer.returncode:
        raise CertificationError(
            f"Coq {coq.version} refuses the law: {_diagnosis(coq, text, answer)}"
        )
    allowed = _SOFT_AXIOMS if SOFT_PROOF in text or _ROUNDING in text else _AXIOMS
    return Checked(coq.version, _assumptions(answer.stdout, allowed))


def compiled(coq: Coq, text: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Compile a text against the library; nothing stays on the disk."""
    library = built_library(coq)
    rounding = built_rounding(coq) if _ROUNDING in text else None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "law.v"
        file.write_text(text, encoding="utf-8")
        try:
            return coq.compile(file, library, timeout, rounding)
        except subprocess.TimeoutExpired:
            raise CertificationError(
                f"Coq did not finish within {timeout:g} seconds; nothing is known of the law"
            ) from None


def _diagnosis(coq: Coq, text: str, answer: subprocess.CompletedProcess[str]) -> str:
    """Return what the checker says of a refused law, or else what Coq says."""
    changed = re.sub(r"^Print Assumptions.*$", "", text, flags=re.MULTILINE)
    for proof, diagnosis in _DIAGNOSES.items():
        changed = changed.replace(proof, diagnosis)
    told = compiled(coq, changed).stdout.split("verdict: ")[1:]
    found = [re.match(r"\(?(\w+)(.*)", verdict, re.DOTALL) for verdict in told]
    known = [verdict for verdict in found if verdict and verdict[1] in _VERDICTS]
    if known:
        verdict = min(known, key=lambda verdict: verdict[1] in _PASSED)
        rest = " ".join(verdict[2].split()).removesuffix(")")[:200]
        return _VERDICTS[verdict[1]].format(*rest.split(), rest=rest)
    return " ".join(answer.stderr.split())[:1000] or f"coqc left with {answer.returncode}"


def _assumptions(output: str, allowed: set[str]) -> str:
    """Return what ``Print Assumptions`` printed; an axiom that is not allowed raises."""
    for beginning in ("Axioms:", "Closed under the global context"):
        if beginning in output:
            found = output[output.index(beginning) :].strip()
            names = re.findall(r"^([\w.']+)\s+:", found, re.MULTILINE)
            if strange := [name for name in names if name not in allowed]:
                raise CertificationError(f"the law rests on other axioms: {', '.join(strange)}")
            return found
    raise CertificationError("Coq did not list the assumptions of the law")
