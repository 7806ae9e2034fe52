"""Many laws in one file: loading Coq's real numbers takes longer than most proofs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from exactformer.coq.check import compiled
from exactformer.coq.installation import Coq
from exactformer.coq.law import PROOF, ROUNDING_IMPORTS, SOFT_IMPORTS, SOFT_PROOF
from exactformer.coq.rounding_law import ROUNDING_PROOF

_START = "Definition "
_DIAGNOSIS = "Proof. intros. diagnose region. Abort."


def together(texts: Sequence[str], proof: str = PROOF) -> str:
    """Return one file with a module for each law, all theorems proved as told."""
    softly = re.sub(r"(certify|diagnose) region", r"\1_softly region tangent", proof)
    rounding = re.sub(r"(certify|diagnose) region", r"\1_rounding region", proof)
    modules = [ROUNDING_IMPORTS if any("certify_rounding" in t for t in texts) else SOFT_IMPORTS]
    for number, text in enumerate(texts):
        body = re.sub(
            r"^Print Assumptions .*\n", "", text[text.index(_START) :], flags=re.MULTILINE
        )
        for known, told in ((PROOF, proof), (SOFT_PROOF, softly), (ROUNDING_PROOF, rounding)):
            body = body.replace(known, told)
        modules.append(module(f"law_{number}", body))
    return "\n".join(modules)


def module(name: str, body: str) -> str:
    """Return a module of its own for a model's definitions and what is said of it."""
    return f"Module {name}.\nOpen Scope Q_scope.\nOpen Scope model_scope.\n{body}\nEnd {name}.\n"


def verdicts(coq: Coq, texts: Sequence[str]) -> list[str]:
    """Return what the checker says of each theorem, those of one law after the other."""
    answer = compiled(coq, together(texts, _DIAGNOSIS))
    assert answer.returncode == 0, answer.stderr
    return re.findall(r"verdict: \(?(\w+)", answer.stdout)
