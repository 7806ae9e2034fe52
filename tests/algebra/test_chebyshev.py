"""The bound of a polynomial by the sum of its Chebyshev coefficients, exactly."""

from fractions import Fraction

from flint import fmpq_poly
from hypothesis import given
from hypothesis import strategies as st

from exactformer.algebra.chebyshev import absolute_sum, to_powers
from exactformer.algebra.rational import to_fmpq, to_fraction

numbers = st.fractions(-3, 3, max_denominator=7)


@given(st.lists(numbers, max_size=9), st.fractions(Fraction(1, 4), 4, max_denominator=5))
def test_the_bound_is_the_sum_of_the_absolute_coefficients(
    coefficients: list[Fraction], reach: Fraction
) -> None:
    """Σ c_k T_k(t/r) is at most Σ|c_k| on |t| ≤ r."""
    powers = [a / reach**s for s, a in enumerate(to_powers(coefficients))]
    bound = absolute_sum(fmpq_poly([to_fmpq(a) for a in powers]), reach)
    assert to_fraction(bound) == sum(map(abs, coefficients), Fraction(0))
