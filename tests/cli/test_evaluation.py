"""Batches on all cores: in order, few at a time, and without a trace when something goes wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from exactformer.cli.support.evaluation import in_order

THREADS = 3


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    yield
    assert torch.get_num_threads() == THREADS
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, THREADS, 20])
def test_results_come_with_their_items_in_order(count: int) -> None:
    assert list(in_order(lambda n: n * n, range(count))) == [(n, n * n) for n in range(count)]


def test_two_items_per_core_are_held_at_the_most() -> None:
    taken, held = 0, []

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(1, 31):
            taken = number
            yield number

    for item, _ in in_order(lambda n: n, items()):
        held.append(taken - item + 1)
    assert max(held) <= 2 * THREADS


def test_a_mistake_in_an_item_or_in_the_function_is_raised() -> None:
    def items() -> Iterator[int]:
        yield from range(10)
        raise ValueError("line 11")

    with pytest.raises(ValueError, match="line 11"):
        list(in_order(lambda n: n, items()))
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda n: 1 // (n - 5), range(10)))


def test_whoever_stops_early_leaves_nothing_behind() -> None:
    results = in_order(lambda n: n, range(100))
    assert next(results) == (0, 0)
    results.close()  # type: ignore[attr-defined]
