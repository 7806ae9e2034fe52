"""The check of a law's file by Coq, and what failed in our own words."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from exactformer.coq import program_law, sequence_law
from exactformer.coq.installation import Coq, built_library, find_coq
from exactformer.coq.law import LAST, PROOF
from exactformer.errors import CertificationError

_DIAGNOSES = {
    PROOF: "Proof. intros. diagnose region. Abort.",
    program_law.PROOF: "Proof. diagnose_program order. Abort.",
    sequence_law.PROOF: "Proof. diagnose_cells. Abort.",
}
"""By the proof of a law: what prints the verdict in its place."""

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
    "AllCells": "the weights pass, but the statement does not follow",
    "Proved": "the weights pass, but the statement does not follow",
}


_AXIOMS = {"sig_forall_dec", "functional_extensionality_dep"}
"""Those of Coq's own real numbers."""


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
    return Checked(coq.version, _assumptions(answer.stdout))


def compiled(coq: Coq, text: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Compile a text against the library; nothing stays on the disk."""
    library = built_library(coq)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "law.v"
        file.write_text(text, encoding="utf-8")
        try:
            return coq.compile(file, library, timeout)
        except subprocess.TimeoutExpired:
            raise CertificationError(
                f"Coq did not finish within {timeout:g} seconds; nothing is known of the law"
            ) from None


def _diagnosis(coq: Coq, text: str, answer: subprocess.CompletedProcess[str]) -> str:
    """Return what the checker says of a refused law, or else what Coq says."""
    for proof, diagnosis in _DIAGNOSES.items():
        changed = text.replace(proof, diagnosis).replace(LAST, "")
        if changed == text.replace(LAST, ""):
            continue
        found = re.search(r"verdict: \(?(\w+)(.*)", compiled(coq, changed).stdout, re.DOTALL)
        if found and found[1] in _VERDICTS:
            rest = " ".join(found[2].split()).removesuffix(")")[:200]
            return _VERDICTS[found[1]].format(*rest.split(), rest=rest)
    return " ".join(answer.stderr.split())[:1000] or f"coqc left with {answer.returncode}"


def _assumptions(output: str) -> str:
    """Return what ``Print Assumptions`` printed; an axiom that is not one of Coq's reals raises."""
    for beginning in ("Axioms:", "Closed under the global context"):
        if beginning in output:
            found = output[output.index(beginning) :].strip()
            names = re.findall(r"^([\w.']+)\s+:", found, re.MULTILINE)
            if strange := [name for name in names if name.rpartition(".")[2] not in _AXIOMS]:
                raise CertificationError(f"the law rests on other axioms: {', '.join(strange)}")
            return found
    raise CertificationError("Coq did not list the assumptions of the law")
