"""``exactformer prove``: the law of a saved model as a theorem in a Coq file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from exactformer.cli.support.options import Force, Json, ModelFile, check_free
from exactformer.cli.support.output import console, print_json, print_saved
from exactformer.core.whole_files import write_bytes
from exactformer.errors import InputError


def prove(
    file: ModelFile,
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    check: bool = False,
    library: Path | None = None,
    rounding: str | None = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write what a model computes as a theorem, for Coq to check.

    For all real points of the domain, the transformer with exactly these matrices is exactly this
    polynomial, or where attention is a softmax, within a stated error of it; for all inputs, it
    computes exactly this program; for all points of the support, it has exactly the values of this
    table. Python proves it first, from scratch. Writing the file needs no Coq; --check does, and
    prints the theorem with the axioms it rests on.

    Args:
        out: Write this .v file; next to the model if absent.
        check: Have Coq check the file, written now or before, and compare it with the model.
        library: Copy the library's sources into this folder, to check without Python.
        rounding: Add a theorem about rounding in float64 or float32; its check needs Flocq.
    """
    from exactformer.coq.installation import copy_library, find_coq
    from exactformer.coq.prove import checked, law_of

    path = file.with_suffix(".v") if out is None else out
    if path.suffix != ".v":
        raise InputError(f"{path}: write .v")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")
    if check:
        find_coq()  # raises without one, before anything is written
    else:
        check_free(force, path)
    law = law_of(file, rounding)
    sources = [] if library is None else copy_library(library)
    is_there = check and path.is_file() and path.read_bytes() == law.text.encode()
    if not is_there:
        check_free(force, path)
        write_bytes(law.text.encode(), path)
    if check:
        law = checked(law, path, file)
    saved = [*([] if is_there else [path]), *sources]
    if as_json:
        found = law.checked
        facts = {
            "file": str(path),
            "theorem": law.theorem,
            "sha256": law.digest,
            "checked_by": None if found is None else f"Coq {found.version}",
            "assumptions": None if found is None else found.assumptions,
        }
        print_json(facts, *saved)
        return
    print_saved(*saved)
    console().print(law.theorem, soft_wrap=True)
    if law.checked is None:
        told = f"Python has proven it. To ask Coq: exactformer prove {file} -o {path} --check"
    else:
        told = f"Proved: Coq {law.checked.version} accepts {path}.\n{law.checked.assumptions}"
    console().print(f"\n{told}", soft_wrap=True)
