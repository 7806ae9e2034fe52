"""Bose and Chowla 1962: numbers whose sums of n are all different."""

from itertools import combinations_with_replacement

import pytest

from exactformer.sequences.constructions.bose_chowla import prime_power, sum_distinct_numbers


@pytest.mark.parametrize(
    ("count", "terms"),
    [
        (1, 2),
        (2, 2),
        (4, 2),
        (9, 2),
        (25, 2),
        (4, 3),
        (8, 3),
        (9, 3),
        (16, 3),
        (5, 4),
        (8, 4),
        (3, 6),
    ],
)
def test_sums_are_all_different(count: int, terms: int) -> None:
    numbers = sum_distinct_numbers(count, terms)
    sums = [sum(chosen) for chosen in combinations_with_replacement(numbers, terms)]
    assert len(numbers) == count
    assert len(set(sums)) == len(sums)


@pytest.mark.parametrize(("count", "terms"), [(16, 2), (27, 2), (7, 3), (8, 3), (5, 4)])
def test_numbers_stay_below_the_order_of_the_field(count: int, terms: int) -> None:
    p, m = prime_power(count)
    assert min(sum_distinct_numbers(count, terms)) == 0
    assert max(sum_distinct_numbers(count, terms)) < p ** (m * terms) - 1


def test_prime_powers() -> None:
    found = [prime_power(k) for k in (1, 2, 4, 5, 6, 8, 9, 10, 24, 26, 28, 33)]
    assert [p**m for p, m in found] == [2, 2, 4, 5, 7, 8, 9, 11, 25, 27, 29, 37]
