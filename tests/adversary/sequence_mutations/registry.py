"""Mutations by their names."""

from collections.abc import Callable

from tests.adversary.sequence_drafts import Draft

Mutation = Callable[[Draft], None]


class Registry(dict[str, Mutation]):
    """Mutations by their names, in the order in which they are added."""

    def add(self, function: Mutation) -> Mutation:
        """Add a mutation under the words of its name."""
        self[function.__name__.replace("_", " ")] = function
        return function
