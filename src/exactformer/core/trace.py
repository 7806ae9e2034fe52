"""What happened at one point on the way through a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from exactformer.errors import InputError


class Trace(Mapping[str, Tensor]):
    """What happened at one point: tensors by name, in order."""

    def __init__(self, seen: dict[str, Tensor], dimensions: tuple[str, ...]) -> None:
        self._seen = seen
        self.dimensions = dimensions
        """Names of the columns of every residual stream."""

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._seen:
            raise InputError(f"the trace has no {name!r}; it has {', '.join(self._seen)}")
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, name: object) -> bool:
        return name in self._seen

    def __str__(self) -> str:
        return "\n".join(f"{name:<28} {tuple(tensor.shape)}" for name, tensor in self.items())
