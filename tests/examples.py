"""How many examples a property is tried on: as many as its test says, scaled by the profile."""

from hypothesis import settings

FEWEST = 10


def examples(usual: int) -> int:
    """Return a count in proportion to the profile's; few are not made fewer."""
    return max(usual * settings.default.max_examples // 100, min(usual, FEWEST))
