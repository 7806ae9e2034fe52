"""Counts and sizes as people read them."""


def plural(count: int, word: str, many: str = "") -> str:
    """Return a number of things, its thousands apart.

    >>> plural(1, "block"), plural(2002, "token"), plural(2, "quantity", "quantities")
    ('1 block', '2,002 tokens', '2 quantities')
    """
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def readable(size: int) -> str:
    """Return a size in bytes in MiB, or in GiB from one on.

    >>> readable(3 * 2**19), readable(5 * 2**40)
    ('1.5 MiB', '5,120.0 GiB')
    """
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"
