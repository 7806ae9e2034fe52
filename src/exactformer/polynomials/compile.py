"""``compile``: from target and domain to ridge forms, blueprint, proof and model."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import inf
from typing import Any

import torch

from exactformer.algebra import Target
from exactformer.algebra.parsing import read_as_products
from exactformer.algebra.ridge import RidgeForm, ridge_forms
from exactformer.core.domain import Domain
from exactformer.core.formats import float_format
from exactformer.core.given_domain import exact_domain, function_domain
from exactformer.core.options import MEMORY_LIMIT, choose
from exactformer.core.precision import as_dtype
from exactformer.errors import InputError
from exactformer.polynomials.acceptance import Task, accepted
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.construction_choice import DEFAULTS, Candidate, candidates
from exactformer.polynomials.constructions import APPROXIMATIONS, CONSTRUCTIONS, construct
from exactformer.polynomials.extrapolation_choice import best_softmax_blueprint
from exactformer.polynomials.functions.compile import approximate
from exactformer.polynomials.functions.sympy_function import given_target
from exactformer.polynomials.model import PolynomialModel, proven_model
from exactformer.polynomials.proof.certificate import EXECUTORS
from exactformer.polynomials.proof.certify import largest_value, prove
from exactformer.polynomials.sizes import check_size, chosen_executor
from exactformer.progress import waiting


@waiting("Compile and prove")
def compile(
    target: Any,
    radius: int | float | Fraction | Decimal | str | None = None,
    *,
    domain: Sequence[tuple[Any, Any]] | Domain | None = None,
    variables: Sequence[str] | None = None,
    construction: str | None = None,
    directions: str = "auto",
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    executor: str | None = None,
    outside: str = "raise",
    tolerance: float | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> PolynomialModel:
    """Compile a polynomial into a transformer that equals it on a domain, and prove it.

    A continuous function is approximated to a tolerance first, on a box; the model is then proven to
    equal the polynomial, and ``model.approximation`` holds its measured distance from the function.

    Args:
        target: a polynomial: text (``"x^2 + 3 x y"``), SymPy, ``np.poly1d`` or ``np.polynomial``, a
            dict ``{exponents: coefficient}``, an array of coefficients in several variables, or
            ``ef.Polynomial``; a list of them (or text with semicolons, a SymPy matrix) for a vector,
            whose components share their blocks. Or a function: of SymPy, ``f(x, y)``, or of points
            with coordinates on the last axis.
        radius: the ball ‖x‖ ≤ radius on which the model is certified, taken exactly; 1 by default.
        domain: in place of the ball a box, ``[(lower, upper), …]``, one interval per variable.
        variables: the order of the coordinates, which ``model.variables`` has; may name unused ones.
            Natural order by default.
        construction: ``"scaled"`` by default, or ``"chebyshev"`` where powers cost more than half of
            the digits (and for functions); ``"doubling"`` for ⌈log₂ q⌉ blocks; ``"softmax"`` for
            ordinary attention, within a certified error of the target; ``"paper"`` for the matrices of
            Theorem 3.5 as printed.
        directions: ``"auto"``, ``"lattice"``, ``"spread"`` or ``"tailored"`` (Lemma 3.3). ``"auto"``
            takes the narrower of lattice and tailored, in as few variables as the target needs.
        dtype: the float format of the module; its rounding bound must be finite.
        device: where the module lives.
        executor: ``"literal"`` (default) carries out every matrix, ``"fused"`` evaluates the proven
            closed form. Where every matrix costs more than 10⁸ multiply-adds per point, one of them
            has to be given.
        outside: what to do with points outside: ``"raise"``, ``"nan"`` or ``"allow"``.
        tolerance: the largest error accepted. For a polynomial a certified one, by default a
            thousandth of max|Q| (more in half formats); ``inf`` accepts any. ``"softmax"`` takes
            the fewest heads that meet it, and without it as many as make the error least.
            For a function it is needed, and measured.
        memory_limit: refuse models whose dense weights need more bytes than this.

    Raises:
        ExactformerError: if the input is wrong, too large, or anything cannot be proven.

    >>> import exactformer as ef
    >>> model = ef.compile("x^2 + y^2", radius=2)
    >>> float(model([1.0, 1.0]))
    2.0
    """
    polynomials, names = given_target(
        target, variables, domain is not None and tolerance is not None
    )
    dtype = as_dtype(dtype)
    _check_options(construction, executor, outside, tolerance, callable(polynomials))
    if callable(polynomials):
        box, names = function_domain(radius, domain, names)
        given = approximate(polynomials, box, tolerance, names, executor, dtype, memory_limit)
        return proven_model(given[0], prove(*given), dtype, device, executor, outside)
    where = exact_domain(radius, domain, polynomials.variables)
    task = Task(polynomials, where, construction, directions, dtype, tolerance, memory_limit)
    blueprint, looked_at = _build(task)
    executor = chosen_executor(blueprint, executor)
    proof = prove(blueprint, polynomials)
    model = proven_model(blueprint, proof, dtype, device, executor, outside)
    if isinstance(target, str) and variables is None and (read := _reading(target)):
        model._note(reading=read)
    return accepted(model, task, looked_at)


def _reading(text: str) -> str:
    """Return in words which letters side by side were read as products."""
    found = {name: f for part in text.split(";") for name, f in read_as_products(part).items()}
    return ", ".join(f"{name} read as {'·'.join(factors)}" for name, factors in found.items())


def local_forms(
    target: Target,
    domain: Domain,
    directions: str = "auto",
    dtype: torch.dtype = torch.float64,
    memory_limit: int = MEMORY_LIMIT,
) -> list[RidgeForm]:
    """Return the ridge forms of a target in a domain's local coordinates.

    Raises:
        SizeError: early, if the transformer along these directions would not fit.
    """

    def fits(width: int) -> None:
        check_size(target, width, dtype.itemsize, memory_limit)

    fits(1)  # before the polynomial is moved to the domain
    axes = range(target.dimension)
    centre, units = [domain.offset(j) for j in axes], [domain.unit(j) for j in axes]
    return ridge_forms([p.composed(centre, units) for p in target], directions, fits)


def _build(task: Task) -> tuple[Blueprint, list[Candidate]]:
    """Return the blueprint and what it was chosen from; softmax takes the best extrapolation."""
    target, domain, number_format = task.target, task.domain, float_format(task.dtype)
    forms = local_forms(target, domain, task.directions, task.dtype, task.memory_limit)
    if task.construction in APPROXIMATIONS:
        least = None if task.tolerance == inf else task.tolerance  # any error: then the least
        return best_softmax_blueprint(forms, domain, target, number_format, least), []
    constructions = (task.construction,) if task.construction else DEFAULTS
    scale = largest_value(target, domain)
    found = candidates(forms, domain, constructions, number_format, scale)
    return construct(found[0].construction, found[0].forms, domain, target), found


def _check_options(
    construction: str | None,
    executor: str | None,
    outside: str,
    tolerance: float | None,
    is_function: bool,
) -> None:
    """Raise for options that no model has, before any work is done."""
    if executor is not None:
        choose("executor", executor, EXECUTORS)
    choose("outside", outside, PolynomialModel.OUTSIDE)
    if is_function:
        choose("construction", construction or "chebyshev", ("chebyshev",))
        return
    choose("construction", construction or "scaled", (*CONSTRUCTIONS, *APPROXIMATIONS))
    if tolerance is not None and not tolerance > 0:
        raise InputError(f"tolerance must be a positive number, not {tolerance!r}")
