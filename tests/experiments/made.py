"""Made-up results, from rows and statements alone."""

from dataclasses import replace

from exactformer.experiments import Experiment, Quantity, Result, Scale, Statement, Summary
from exactformer.experiments.engine.provenance import Provenance
from exactformer.experiments.engine.summary import judged
from exactformer.experiments.engine.verdict import published
from tests.experiments import toy

ORIGIN = Provenance(
    command="exactformer reproduce made --scale full",
    version="1",
    commit="0" * 40,
    modified=False,
    code="",
    seeds=(0, 1),
    device="a processor",
    date="2026-01-01T00:00:00+00:00",
    seconds=75.0,
    wall_seconds=8.0,
    cells=2,
    kept=0,
    python="3",
    torch="2",
    numpy="2",
)


def row(label, values, expected=None, **options):
    """A quantity with its values over seeds."""
    return Quantity(label, "error", {}, expected=expected, **options), tuple(values)


def statement(text, holds):
    """A statement with its outcome."""
    return Statement(text, lambda summary: holds)


def result(rows=(), statements=(), scale=Scale.FULL, unjudged=(), **fields):
    """A result of these rows and statements; a ``name`` of the ledger's gives it claims."""
    experiment = Experiment(
        name="made",
        title="A made-up result",
        claim="Something holds.",
        source="Nobody 2000, Table 0",
        cells=lambda scale: [],
        run=toy.run,
        quantities=tuple(quantity for quantity, _ in rows),
        statements=tuple(statements),
    )
    experiment = replace(experiment, **fields)
    quantities, known = experiment.quantities_at(scale), published(experiment.name)
    pairs = zip(quantities, (values for _, values in rows), strict=True)
    summary = Summary(scale, tuple(judged(q, values, scale, known) for q, values in pairs), ())
    tested = {one.text: one.holds(summary) for one in statements}
    return Result(experiment, summary, tested, ORIGIN, tuple(unjudged))
