"""Sizes in bytes as people read them."""


def readable(size: int) -> str:
    """Return a size in MiB, or in GiB from one on.

    >>> readable(3 * 2**19), readable(5 * 2**40)
    ('1.5 MiB', '5,120.0 GiB')
    """
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"
