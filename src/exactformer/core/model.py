"""The face of every model: what can be asked of it, whatever the theorem it was made by."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, NoReturn, Self, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from exactformer.core.certificate import Certificate, Measured
from exactformer.core.formats import float_format
from exactformer.core.integrity import ProvenModule
from exactformer.core.options import choose
from exactformer.errors import ExecutionError, InputError

AnyCertificate = TypeVar("AnyCertificate", bound=Certificate)


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


class CertifiedModel(ProvenModule, Generic[AnyCertificate]):
    """A ``torch.nn.Module`` made from a blueprint, with a certificate of how far off it is."""

    executor: str
    """How the blueprint is run."""
    blueprint: Any
    OUTSIDE: tuple[str, ...] = ("raise", "nan", "allow")
    """What may be done with inputs outside the domain."""

    @property
    def certificate(self) -> AnyCertificate:
        """What is known of the model, in its number format and as it is run.

        Raises:
            WeightMismatchError: if the module is no longer the one that was proven.
        """
        self.check_unchanged()
        return self._certificate.about(float_format(self.dtype).name, self.executor)

    @property
    def dtype(self) -> torch.dtype:
        """The number format the model computes in."""
        return self._format()

    @property
    def outside(self) -> str:
        """What is done with inputs outside the domain, where nothing is known: :attr:`OUTSIDE`."""
        return self._outside

    @outside.setter
    def outside(self, outside: str) -> None:
        choose("outside", outside, self.OUTSIDE)
        self._outside = outside

    def placed(self, device: torch.device | str | None) -> Self:
        """Return the model on a device; None leaves it where it is."""
        try:
            return self if device is None else self.to(device)
        except (RuntimeError, AssertionError) as error:  # torch's own, by device and build
            raise InputError(f"device={str(device)!r} cannot be used: {error}") from error

    @property
    @abstractmethod
    def target(self) -> Any:
        """What the model was made for, as far as it is known."""

    @abstractmethod
    def forward(self, x: Any) -> Tensor:
        """Evaluate at inputs given as tensor, array or nested list."""

    @abstractmethod
    def measure(self, target: Any = None, *, samples: int = 2048, seed: int = 0) -> Measured:
        """Measure the distance to a target, by default its own, on random inputs."""

    @abstractmethod
    def trace(self, x: Any) -> Trace:
        """Return every stream, score and selection at one input, by name."""

    @abstractmethod
    def exact(self, x: Any) -> Any:
        """Run the blueprint in rational arithmetic: rationals in, rationals out.

        Raises:
            ExecutionError: where something in it is not rational.
        """

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write the blueprint to one file; :func:`exactformer.load` reads it back.

        Raises:
            WeightMismatchError: if the module is no longer the blueprint's.
        """

    def facts(self) -> dict[str, Any]:
        """Return what the model is, as plain data."""
        facts: dict[str, Any] = self.blueprint.facts()
        return facts

    def rows(self) -> dict[str, str]:
        """Return what the model is in words, a line for every name."""
        rows: dict[str, str] = self.blueprint.rows()
        return rows

    def to_onnx(self, path: str | Path, executor: str | None = None) -> None:
        """Write an ONNX file, where the family has it."""
        self._lacks("be written as ONNX")

    def to_numpy(self, executor: str | None = None) -> dict[str, NDArray[Any]]:
        """Return the weights as plain arrays, where the family has it."""
        self._lacks("be given as plain arrays")

    def to_transformer_lens(self) -> Any:
        """Return the same model for TransformerLens, where the family has it."""
        self._lacks("be opened in TransformerLens")

    @property
    def _certificate(self) -> AnyCertificate:
        """The certificate, without a look at the weights."""
        certificate: AnyCertificate = self._record.statement
        return certificate

    def _lacks(self, deed: str) -> NoReturn:
        raise ExecutionError(
            f"a {type(self).__name__} cannot {deed}; model.save(path) keeps it whole"
        )
