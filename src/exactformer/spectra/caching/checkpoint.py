"""Checkpoints of a fit: a folder from which an interrupted fit goes on, to the same bits.

    run.json                  what the fit depends on: weights, tokens, options, versions, device
    reading.safetensors       sums over the windows of text that were read
    SHARE/layer-000 …         a fitted layer: its tensors, and what was found of it
    SHARE/states.safetensors  hidden states behind the last fitted layer, and the latents there

A file gets its name once all of it is on the disk. It holds the digest of ``run.json`` and a seal over
its tensors and facts, so that a torn, altered or misplaced one is found out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from exactformer.core.whole_files import write_bytes
from exactformer.errors import AlteredFileError, FileFormatError, InputError
from exactformer.spectra.caching.identity import digest_of

try:
    import fcntl
except ImportError:  # Windows: seals notice what two fits at once may spoil
    fcntl = None  # type: ignore[assignment]

_KEY = "exactformer.checkpoint"
_RUN, _LOCK = "run.json", "lock"
_SECONDS = 60.0
"""Between two files of sums, which are large next to what one window adds."""

Part = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors by name, and facts."""


class Checkpoint:
    """Files of tensors and facts, by name, in a folder or in a part of it."""

    def __init__(self, folder: Path, run: str, device: torch.device, part: str = "") -> None:
        self._root, self._run, self._device, self._part = folder, run, device, part
        self._folder = folder / part
        self._written = monotonic()

    def part(self, name: str) -> Checkpoint:
        """Return a folder inside."""
        return Checkpoint(self._root, self._run, self._device, name)

    def due(self) -> bool:
        """Whether the last file was written some time ago."""
        return monotonic() - self._written >= _SECONDS

    def write(self, name: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write a file; an existing one is replaced only once all is written."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        path = self._path(name)
        partial = path.with_name(path.name + ".partial")
        plain = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        header = {"run": self._run, "name": f"{self._part}/{name}", "facts": dict(facts)}
        sealed = json.dumps({**header, "seal": digest_of(plain, header)})
        try:
            self._folder.mkdir(exist_ok=True)
            save_file(plain, partial, {_KEY: sealed})
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.replace(path)
        except (OSError, SafetensorError) as error:
            with suppress(OSError):
                partial.unlink()
            raise FileFormatError(f"cannot write {path}: {error}") from None
        self._written = monotonic()

    def read(self, name: str) -> Part | None:
        """Return what a file holds, on the device of the fit; ``None`` where there is none."""
        from safetensors import SafetensorError, safe_open

        path = self._path(name)
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                header = json.loads((file.metadata() or {})[_KEY])
                # A copy lies in memory as the tensors of a fit do: sums depend on alignment.
                tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
            if not isinstance(header, dict) or not isinstance(header.get("facts"), dict):
                raise TypeError("its header has no facts")
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            reason = f"is truncated or not a part of a checkpoint ({error})"
            raise self.refusal(name, reason) from None
        seal = header.pop("seal", None)
        if header.get("run") != self._run or header.get("name") != f"{self._part}/{name}":
            raise self.refusal(name, "belongs to another fit")
        if seal != digest_of(tensors, header):
            raise AlteredFileError(
                f"{path} is not what was written: its seal is broken. {self._way_out}"
            )
        return {key: tensor.to(self._device) for key, tensor in tensors.items()}, header["facts"]

    def has(self, name: str) -> bool:
        """Whether there is a file."""
        return self._path(name).is_file()

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._path(name).unlink(missing_ok=True)

    def refusal(self, name: str, reason: str) -> FileFormatError:
        """Return the error that a file is not what it should be."""
        return FileFormatError(f"{self._path(name)} {reason}. {self._way_out}")

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.safetensors"

    @property
    def _way_out(self) -> str:
        return f"Remove {self._folder} to begin again"


@contextmanager
def opened(
    folder: str | Path, run: Mapping[str, Any], device: torch.device
) -> Iterator[Checkpoint]:
    """Yield the checkpoint of a fit in a folder, new or of the very same fit; nobody else may use it.

    ``run`` describes the fit. Where another one lies in the folder, it is refused with what differs.
    """
    place, run = Path(folder), json.loads(json.dumps(run, default=float))
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = (place / _LOCK).open("ab")
    except OSError as error:
        raise InputError(f"checkpoint {place} cannot be used: {error.strerror}") from None
    with lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(
                    f"checkpoint {place} is in use by another process, or cannot be locked "
                    f"({error.strerror}): wait for it, or give another folder"
                ) from None
        _check_run(place, run)
        yield Checkpoint(place, digest_of({}, run), device)


def _check_run(place: Path, run: Mapping[str, Any]) -> None:
    """Note a new fit in an empty folder, or compare with the one that was noted."""
    path = place / _RUN
    if not path.exists():
        if any(file.name != _LOCK and file.suffix != ".partial" for file in place.iterdir()):
            raise InputError(
                f"checkpoint {place} has files in it but no {_RUN}: give an empty or a new folder"
            )
        write_bytes(json.dumps(run, indent=1).encode(), path)
        return
    try:
        known = json.loads(path.read_bytes())
        if not isinstance(known, dict):
            raise TypeError("not an object")
    except (OSError, ValueError, TypeError) as error:
        raise FileFormatError(
            f"{path} cannot be read ({error}). Remove {place} to begin again"
        ) from None
    changed = [
        _difference(name, known.get(name), run.get(name))
        for name in dict.fromkeys((*run, *known))
        if known.get(name) != run.get(name)
    ]
    if changed:
        raise InputError(
            f"checkpoint {place} belongs to another fit: {'; '.join(changed)}. Go on as it began, "
            "give another folder, or remove this one"
        )


def _difference(name: str, there: Any, here: Any) -> str:
    """Return what differs; digests are not shown."""
    if name in ("model", "texts", "held_out"):
        return f"another {name}" if name == "model" else f"other {name}"
    return f"{name} = {there!r} there, {here!r} here"
