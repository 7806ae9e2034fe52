"""Certifying a sequence model or file from scratch, against its own table or another target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from exactformer.core.integrity import check_against_blueprint
from exactformer.core.options import MEMORY_LIMIT
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.compile import Table, prove_stored, sequence_table
from exactformer.sequences.files import load_sequence
from exactformer.sequences.grid import GridTable, exact
from exactformer.sequences.measure import equal_column_norm
from exactformer.sequences.model import SequenceModel
from exactformer.sequences.proof.certify import SequenceCertificate, fits
from exactformer.sequences.proof.error import (
    SOURCE,
    SequenceErrorBound,
    Stated,
    sample_of,
    stated_error,
)
from exactformer.sequences.sizes import PRECISION
from exactformer.sequences.tabulate import SequenceMap


def certify_sequence_model(
    source: SequenceModel | str | Path,
    target: SequenceMap | Table | None = None,
    *,
    memory_limit: int = MEMORY_LIMIT,
) -> SequenceCertificate:
    """Prove a sequence model, or the file of one, from its weights alone.

    Args:
        source: a model, first compared with what its blueprint builds; or the path of a file.
        target: what it should be on the grid, a function of (tokens, dim) arrays or a table; by
            default the table that it was saved with.
        memory_limit: bytes that the proof may take.

    Raises:
        ExactformerError: if the weights are not the target's, or anything cannot be proven.
    """
    executor: str | None = None
    if isinstance(source, SequenceModel):
        check_against_blueprint(source)
        blueprint, table, executor = source.blueprint, source.table, source.executor
    else:
        blueprint, table = load_sequence(source)
    if target is not None:
        table = sequence_table(target, table.grid, sample_of(blueprint))
    run = executor
    if run is None and not fits(blueprint.tokens, blueprint.largest_key, PRECISION):
        run = "exact"
    proven = prove_stored(blueprint, table, run, memory_limit=memory_limit)
    certificate = proven.certificate
    if callable(target) and certificate.error is not None and certificate.error.stated:
        error = _anew(blueprint, table, target, certificate)
        certificate = replace(certificate, error=error)
    return replace(certificate, executor=executor)


def _anew(
    blueprint: SequenceBlueprint,
    table: GridTable,
    target: SequenceMap,
    certificate: SequenceCertificate,
) -> SequenceErrorBound | None:
    """Return the bound with norms of a function that is given; those that a file states are dropped."""
    metadata = dict(blueprint.metadata)
    stated = Stated.of(metadata)
    assert stated is not None
    equal = equal_column_norm(target, table.grid, float(stated.p), sample_of(blueprint))
    known = replace(stated, largest=None, equal_norm=None if equal is None else exact(equal))
    kept = {k: v for k, v in metadata.items() if not k.startswith("modulus")}
    metadata = {**kept, **known.to_metadata(), SOURCE: metadata[SOURCE]}
    return stated_error(replace(blueprint, metadata=metadata), table, certificate.softness)
