"""``ef.prove``: the law of a model as a theorem in a Coq file, checked if wanted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from exactformer.algebra import Target
from exactformer.coq.check import Checked, check_law
from exactformer.coq.hard_laws import FAMILIES, hard_law
from exactformer.coq.law import law, theorem_of
from exactformer.core.certificate import Certificate, Claim
from exactformer.core.loading import certify, family_of
from exactformer.core.model import CertifiedModel
from exactformer.core.whole_files import write_bytes
from exactformer.errors import AlteredFileError, CertificationError, InputError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.files import digest, load_blueprint
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.proof.certificate import PolynomialCertificate


@dataclass(frozen=True)
class Law:
    """The law of a model: the text of its file, and what Coq said of it if it was asked."""

    text: str
    theorem: str
    certificate: Certificate
    """Python's own; it lists Coq's check where there was one."""
    checked: Checked | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of the file."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def claim(self) -> Claim:
        """Coq's check as a claim of a certificate."""
        if self.checked is None:
            raise InputError("Coq has not checked this law; use check=True")
        version = ".".join(self.checked.version.split(".")[:2])
        return Claim("coq", f"checked by Coq {version} (file with SHA-256 {self.digest})")


def prove(source: Any, path: str | Path, check: bool = False, rounding: str | None = None) -> Law:
    """Write the law of a model as a theorem in a Coq file; with ``check``, run Coq on it.

    Python's own proof goes first, from scratch. The theorem says in plain notation that for all real
    points of the domain the transformer, with exactly these matrices, is exactly this polynomial; where
    attention is a softmax, that it is within a stated error of it, in exact arithmetic. Of a
    program it says that every input up to the length gives the program's output, of a sequence map
    that every rational point of the support gives the table's value, both with hard attention.
    Writing needs no Coq. After a check the certificate of a model lists it.

    Args:
        source: a model, or the path of a saved one.
        path: of the file to write, usually ``law.v``; an existing file is replaced.
        check: whether Coq must accept the file; then it is also read back and compared with the model.
        rounding: "float64" or "float32" adds a theorem about the fused form in that arithmetic, in any
            order of summation; to check it takes Coq's library Flocq.

    Raises:
        ExactformerError: if the model is not proven, has no law in the Coq library, or Coq refuses.
    """
    found = law_of(source, rounding)
    path = Path(path)
    write_bytes(found.text.encode(), path)
    return checked(found, path, source) if check else found


def law_of(source: Any, rounding: str | None = None) -> Law:
    """Return the law of a model or a saved file that Python has proven from scratch, unchecked."""
    family = family_of(source)
    if family != "polynomials" and rounding is not None:
        raise InputError(
            f"a theorem about rounding is there for polynomials, and this model is one of {family}"
        )
    if family in FAMILIES:
        return Law(*hard_law(source, family))
    if family != "polynomials":
        raise InputError(
            f"the Coq library does not prove {family}; exactformer certify proves it in Python"
        )
    blueprint = source.blueprint if isinstance(source, PolynomialModel) else _read(source)
    certificate = certify(source)
    if not isinstance(certificate, PolynomialCertificate) or _changed(certificate, blueprint):
        raise CertificationError(f"{source} changed while it was being proven")
    target = Target.coerce(certificate.target, blueprint.variables)
    text = law(blueprint, target, rounding=rounding)
    return Law(text, theorem_of(text), certificate)


def checked(found: Law, path: Path, source: Any) -> Law:
    """Return a law that Coq has checked as it stands in a file; a model remembers the check."""
    content = path.read_bytes()
    if content != found.text.encode():
        text = content.decode(errors="replace")
        raise CertificationError(
            f"{path} is not the law of this model: {_difference(text, found.text)}"
        )
    result = replace(found, checked=check_law(found.text))
    certificate = replace(found.certificate, checks=(result.claim,))
    if isinstance(source, CertifiedModel):
        source._restate(replace(source._certificate, checks=(result.claim,)))
    return replace(result, certificate=certificate)


def _read(path: str | Path) -> Blueprint:
    """Return a file's blueprint; Python's proof says what is wrong with an altered one."""
    try:
        return load_blueprint(path)
    except AlteredFileError:
        certify(path)
        raise


def _changed(certificate: PolynomialCertificate, blueprint: Blueprint) -> bool:
    return certificate.blueprint_digest != digest(blueprint)


def _difference(text: str, expected: str) -> str:
    here, there = text.splitlines(keepends=True), expected.splitlines(keepends=True)
    for number, (line, other) in enumerate(zip(here, there, strict=False), start=1):
        if line != other:
            return f"line {number} is {line[:80]!r}, the model has {other[:80]!r}"
    return f"it has {len(here)} lines, the model's has {len(there)}"
