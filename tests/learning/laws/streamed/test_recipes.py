from itertools import pairwise

import numpy as np
import pytest

dask_array = pytest.importorskip("dask.array")

from exactformer.learning.laws.streamed.recipes import recipes  # noqa: E402

TABLE = np.arange(3000.0).reshape(1000, 3)


def read(start, stop, calls):
    calls.append(start)
    return TABLE[start:stop]


def table_of(sizes, calls):
    from dask.delayed import delayed

    ends = np.cumsum([0, *sizes]).tolist()
    return dask_array.concatenate(
        [
            dask_array.from_delayed(
                delayed(read, pure=False, traverse=False)(a, b, calls), (b - a, 3), float
            )
            for a, b in pairwise(ends)
        ]
    )


def cut(table, rows):
    return [part.rechunk((rows, part.shape[1])) for part in (table[:, :2], table[:, 2:])]


@pytest.mark.parametrize("sizes", [(250,) * 4, (100, 900), (1000,), (333, 333, 334)])
def test_parts_of_each_block_are_its_rows(sizes):
    import dask

    blocks = recipes(cut(table_of(sizes, []), 250))
    assert len(blocks) == 4
    for place, recipe in enumerate(blocks):
        X, y = recipe.rows(dask.compute(*recipe.shared, scheduler="sync"))
        rows = TABLE[place * 250 : (place + 1) * 250]
        np.testing.assert_array_equal(np.column_stack([X, y]), rows)


def test_what_serves_one_block_is_not_asked_of_others():
    assert all(recipe.shared == () for recipe in recipes(cut(table_of((250,) * 4, []), 250)))


def test_what_serves_several_blocks_is_given_to_each():
    first, second = recipes(cut(table_of((1000,), []), 500))
    assert first.shared
    assert {d.key for d in first.shared} & {d.key for d in second.shared}
