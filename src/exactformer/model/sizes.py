"""What a transformer's dense matrices occupy, known before any of them is made."""

from __future__ import annotations

from exactformer.algebra import Target
from exactformer.errors import SizeError

MEMORY_LIMIT = 4 * 2**30


def dense_entries(tokens: int, degree: int, dimension: int, outputs: int = 1) -> int:
    """Return the number of entries of all matrices, zeros included."""
    width = tokens + degree + 2
    blocks = degree * (2 * (tokens + 2) * width + width * width)
    return blocks + tokens * (dimension + width) + outputs * tokens * width


def check_size(target: Target, tokens: int, itemsize: int, memory_limit: int) -> None:
    """Refuse a model whose dense matrices would not fit, with the figures and the way out."""
    q, d = target.degree, target.dimension
    entries = dense_entries(tokens, q, d, len(target))
    if entries * itemsize > memory_limit:
        raise SizeError(
            f"degree {q} in {d} variables needs n = {tokens:,} tokens here; the blocks' matrices "
            f"then have {entries:,} entries, {entries * itemsize / 2**30:.1f} GiB, and the limit is "
            f"{memory_limit / 2**30:.1f} GiB. Lower the degree or the number of variables, try "
            "directions='tailored' if few monomials are present, or raise memory_limit="
        )
