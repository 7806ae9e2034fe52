"""Published values, notes and errata are tables by row: none may name a row that is not there."""

import pytest

from exactformer.experiments import Scale
from exactformer.experiments.jiang import table_1, table_2, table_3


@pytest.mark.parametrize(
    ("module", "tables"),
    [
        (table_1, ("SHARES", "NOTES")),
        (table_2, ("PUBLISHED", "NOTES", "ERRATA")),
        (table_3, ("PUBLISHED", "ERRATA")),
    ],
)
def test_every_entry_is_that_of_a_row(module, tables):
    rows = {quantity.label for quantity in module.EXPERIMENT.quantities_at(Scale.FULL)}
    for table in tables:
        assert getattr(module, table).keys() <= rows
