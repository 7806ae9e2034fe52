"""Many laws in one file: loading Coq's real numbers takes longer than most proofs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from exactformer.coq.check import compiled
from exactformer.coq.installation import Coq
from exactformer.coq.law import PROOF, SOFT_IMPORTS, SOFT_PROOF
from exactformer.coq.text import LAST

_START = "Definition "


def together(texts: Sequence[str], proof: str = PROOF) -> str:
    """Return one file with a module for each law, proved as told."""
    modules = [SOFT_IMPORTS]
    softly = re.sub(r"(certify|diagnose) region", r"\1_softly region tangent", proof)
    for number, text in enumerate(texts):
        body = text[text.index(_START) :].removesuffix(LAST)
        body = body.replace(PROOF, proof).replace(SOFT_PROOF, softly)
        modules.append(module(f"law_{number}", body))
    return "\n".join(modules)


def module(name: str, body: str) -> str:
    """Return a module of its own for a model's definitions and what is said of it."""
    return f"Module {name}.\nOpen Scope Q_scope.\nOpen Scope model_scope.\n{body}\nEnd {name}.\n"


def verdicts(coq: Coq, texts: Sequence[str]) -> list[str]:
    """Return what the checker says of each law."""
    answer = compiled(coq, together(texts, "Proof. intros. diagnose region. Abort."))
    assert answer.returncode == 0, answer.stderr
    return re.findall(r"verdict: \(?(\w+)", answer.stdout)
