"""The module of a program: tokens in, values out, by a transformer that is proven to compute them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from exactformer.core.certificate import Measured
from exactformer.core.inputs import as_tensor, check_values, is_recording
from exactformer.core.integrity import remember
from exactformer.core.layers import Rule
from exactformer.core.model import CertifiedModel, Trace
from exactformer.core.onnx_graph import check_onnx_name
from exactformer.core.options import check_draw, choose
from exactformer.core.precision import check_products, full_precision, plain_torch
from exactformer.core.whole_files import write_bytes
from exactformer.errors import ExecutionError, InputError, OutsideDomainError, needs
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.circuit import Circuit, circuit_of
from exactformer.programs.files import save_program
from exactformer.programs.lens import bridge
from exactformer.programs.program import Program
from exactformer.programs.proof.certificate import EXECUTORS, ProgramCertificate
from exactformer.programs.run.exact import run_program
from exactformer.programs.run.stack import ProgramStack
from exactformer.programs.values import Value, canonical

PADDING = -1
"""In place of a token's number, after the end of a sequence."""


class ProgramModel(CertifiedModel[ProgramCertificate]):
    """Sequences of tokens to sequences of values.

    ``model.decode(["a", "b"])`` takes tokens and returns values. ``model(ids)`` takes tokens by their
    number in :attr:`vocabulary`, ``(n,)`` or ``(batch, n)`` with −1 after the end of shorter ones, and
    returns what is read out, ``(…, n, values)``: 1 for the value, 0 for the others, or one number.
    """

    FIXED = ("blueprint", "program", "executor")
    OUTSIDE = ("raise", "nan")
    blueprint: ProgramBlueprint

    @plain_torch()
    def __init__(
        self,
        blueprint: ProgramBlueprint,
        program: Program,
        certificate: ProgramCertificate,
        executor: str | None = None,
        dtype: torch.dtype = torch.float64,
        outside: str = "raise",
    ) -> None:
        super().__init__()
        executor = executor or EXECUTORS[0]
        choose("executor", executor, EXECUTORS)
        self.outside = outside
        self.blueprint, self.program, self.executor = blueprint, program, executor
        self.network = ProgramStack(blueprint, dtype)
        self._seal(certificate)

    @property
    def target(self) -> Program:
        """The program as tables, which can be run on a list of tokens."""
        return self.program

    @property
    def vocabulary(self) -> tuple[Value, ...]:
        """The tokens, by number."""
        return self.program.tokens

    @property
    def values(self) -> tuple[Value, ...]:
        """The values of the output, in the order of the directions that are read out."""
        return self._certificate.proof.facts.universe(self.program.output)

    @property
    def max_length(self) -> int:
        """The most tokens of an input."""
        return self.program.max_length

    def forward(self, x: Any) -> Tensor:
        """Evaluate sequences of tokens by number, given as tensor, array or nested list.

        Raises:
            CertificationError: if the model was moved to a format in which it is not proven.
        """
        self._check_proven()
        ids = self._ids(x)
        rows = ids if ids.dim() == 2 else ids[None]
        inside = self._inside(rows)
        if inside is not None:
            rows = rows.where(inside[:, None], 0)[:, : self.max_length]
        with full_precision(ids.device):
            output: Tensor = self.network(rows)
        if inside is not None:
            missing = output.new_full((*ids.shape[-2:], output.shape[-1])[-3:], torch.nan)
            missing = missing.expand(len(rows), -1, -1).clone()
            missing[inside, : output.shape[1]] = output[inside]
            output = missing
        return output if ids.dim() == 2 else output[0]

    @plain_torch()
    def decode(self, sequences: Any) -> list[Any]:
        """Return the values at every token of a sequence, or of each of several sequences.

        Tokens are those of the vocabulary. A text is a sequence of its characters. Every weight is
        looked at first; ``model.decode_output(model(ids))`` leaves that out.

        Raises:
            WeightMismatchError: if the module is no longer the one that was proven.

        >>> import exactformer as ef
        >>> from exactformer import rasp
        >>> hist = rasp.SelectorWidth(rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ))
        >>> model = ef.compile_program(hist, vocabulary="abc", max_length=5)
        >>> model.decode("abca"), model.decode([["a"], ["b", "b"]])
        ([2, 1, 1, 2], [[1], [2, 2]])
        """
        self.check_unchanged()
        one = self._is_one(sequences)
        rows = [self.encode(row) for row in ([sequences] if one else sequences)]
        if not rows or not any(rows):
            return [] if one else [[] for _ in rows]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [PADDING] * (longest - len(row)) for row in rows])
        if any(not row for row in rows):
            raise InputError("a sequence has at least one token")
        found = self.decode_output(self(ids.to(self._home().device)))
        values = [line[: len(row)] for line, row in zip(found, rows, strict=True)]
        return values[0] if one else values

    def encode(self, tokens: Sequence[Value]) -> list[int]:
        """Return the numbers of tokens."""
        numbers = {token: number for number, token in enumerate(self.vocabulary)}
        found = []
        for token in tokens:
            value = canonical(token)
            if value not in numbers:
                raise OutsideDomainError(
                    f"{token!r} is not in the vocabulary {list(self.vocabulary)[:12]}"
                )
            found.append(numbers[value])
        if len(found) > self.max_length:
            raise OutsideDomainError(
                f"the sequence has {len(found)} tokens; the model is proven up to {self.max_length}"
            )
        return found

    def decode_output(self, output: Tensor) -> list[Any]:
        """Return the values that outputs of :meth:`forward` stand for: the nearest ones.

        Raises:
            OutsideDomainError: where outputs are NaN, so that none is nearest.
        """
        if bool(output.isnan().any()):
            raise OutsideDomainError(
                "NaN stands for no value: a sequence was no input of the model"
            )
        if not self.program.numerical:
            places = output.argmax(dim=-1).tolist()
            return _nested(places, lambda k: self.values[k])
        numbers = [Fraction(v) for v in self.values]
        middles = [(a + b) / 2 for a, b in pairwise(numbers)]
        found = output[..., 0].double().tolist()
        return _nested(found, lambda z: self.values[bisect_left(middles, Fraction(z))])

    def trace(self, x: Any) -> Trace:
        """Return every stream, score and pattern on one sequence, by name.

        Besides ``"layer 0 output"`` and the like there is ``"layer 0, head 1: select(…)"`` for the
        pattern of every head, and every expression under its own name: its directions of the stream.
        Rows include the beginning token where there is one.
        """
        ids = self._ids(x)
        if ids.dim() != 1:
            raise InputError("trace takes one sequence of tokens at a time")
        self.check_unchanged()
        self._check_proven()
        if self._inside(ids[None]) is not None:
            raise self._outside_error(ids)
        seen: dict[str, Tensor] = {}

        def record(name: str, tensor: Tensor) -> None:
            masked = max(_MASKED, torch.finfo(tensor.dtype).min)
            seen[name] = tensor[0].masked_fill(tensor[0] == -torch.inf, masked)

        with torch.no_grad(), full_precision(ids.device):
            seen["output"] = self.network(ids[None], record)[0]
        heads = [c for c in self.circuit().components if c.kind == "head"]
        for head in heads:
            pattern = seen[f"layer {head.layer} pattern"]
            seen[f"{head.name}: {head.selector}"] = pattern[head.index or 0]
        last = f"layer {len(self.blueprint.layers) - 1} output"
        stream = seen[last] if self.blueprint.layers else seen["embedding"]
        for register in self.blueprint.registers:
            if register.node is not None:
                name = self.program.names[register.node]
                seen.setdefault(name, stream[:, list(register.directions)])
        return Trace(seen, self.blueprint.dimensions)

    def expressions(self, tokens: Sequence[Value]) -> dict[str, list[Value]]:
        """Return the value of every expression of the program on a sequence of tokens."""
        rows = self.program.run([canonical(token) for token in tokens])
        return dict(zip(self.program.names, rows, strict=True))

    def circuit(self) -> Circuit:
        """Return which head and which ReLUs compute which expression, and what they read."""
        return circuit_of(self.blueprint, self.program)

    def exact(self, x: Any) -> list[list[Fraction]]:
        """Run every layer on one sequence of tokens by number, in rational arithmetic.

        As in :meth:`forward`, −1 may follow the last token, and has zeros.
        """
        if self.blueprint.selection.rule is not Rule.HARD_MAX:
            raise ExecutionError("softmax is not rational; compile with realisation='hard'")
        ids = self._ids(x)
        if ids.dim() != 1:
            raise InputError("exact takes one sequence of tokens at a time")
        if self._inside(ids[None]) is not None:
            raise self._outside_error(ids)
        tokens = [number for number in ids.tolist() if number != PADDING]
        missing = [[Fraction(0)] * self.blueprint.readout.rows] * (len(ids) - len(tokens))
        return run_program(self.blueprint, tokens) + missing

    def stock_ids(self, x: Any) -> Tensor:
        """Return tokens by number as stock models take them, ``(batch, rows)``: the beginning included.

        Sequences of a batch are equally long.
        """
        ids = self._ids(x)
        rows = ids if ids.dim() == 2 else ids[None]
        if self._inside(rows) is not None or bool((rows == PADDING).any()):
            raise self._outside_error(rows[0])
        first = rows.new_full((len(rows), int(self.blueprint.beginning)), len(self.vocabulary))
        return torch.cat([first, rows], dim=1)

    @plain_torch()
    def to_onnx(self, path: str | Path, executor: str | None = None) -> None:
        """Write an ONNX file: ``ids`` (batch, n) to ``values``, within the certified error.

        −1 comes after the end of shorter sequences. What is not an input is answered with NaN. The
        file's words have the vocabulary and the values, in order.
        """
        from exactformer.programs.onnx import onnx_file

        check_onnx_name(path)
        choose("executor", executor or self.executor, EXECUTORS)
        write_bytes(onnx_file(self), path)

    @plain_torch()
    def to_transformer_lens(self) -> Any:
        """Return the model as a ``TransformerBridge``, which takes :meth:`stock_ids`.

        Its logits are within the certified error of the program's values; its rows include the
        beginning token's.
        """
        self.check_unchanged()
        self._check_proven()
        return bridge(self)

    @plain_torch()
    def to_hugging_face(self) -> Any:
        """Return the model as a ``PreTrainedModel`` with a label for every token.

        It takes tokens by number without a beginning token. ``save_pretrained`` writes it, and after
        ``ef.register_transformers()`` ``AutoModelForTokenClassification`` reads it, without a proof.
        """
        self.check_unchanged()
        self._check_proven()
        with needs("models", "to_hugging_face"):
            from exactformer.programs.stock_model import stock_model
        return stock_model(self)

    @plain_torch()
    def measure(self, target: Any = None, *, samples: int = 2048, seed: int = 0) -> Measured:
        """Measure how far outputs are from the program's, by default its own, on random inputs.

        Lengths and tokens are drawn uniformly. Another target is an expression of
        :mod:`exactformer.rasp`, or anything that takes a list of tokens and returns one of values.
        """
        check_draw(samples, seed)
        generator = np.random.default_rng(seed)
        program = self.program if target is None else target
        place = {value: k for k, value in enumerate(self.values)}
        errors, wrong = [], []
        for _ in range(samples):
            size = int(generator.integers(1, self.max_length + 1))
            ids = generator.integers(0, len(self.vocabulary), size)
            wanted = program([self.vocabulary[k] for k in ids])
            output = self(torch.as_tensor(ids, device=self._home().device)).double().cpu().numpy()
            if self.program.numerical:
                ideal = np.array([float(v) for v in wanted])[:, None]
            else:
                ideal = np.zeros_like(output)
                for row, value in enumerate(wanted):
                    if value in place:
                        ideal[row, place[value]] = 1
            errors.append(float(np.abs(output - ideal).max()))
            wrong.append(float(self.decode_output(torch.as_tensor(output)) != list(wanted)))
        norm = "max |output − ideal output| of an input"
        part = _measured(wrong, seed, "inputs whose decoded output is wrong")
        return _measured(errors, seed, norm, {"wrong": part})

    def save(self, path: str | Path) -> None:
        """Write the blueprint and the program's tables to one file.

        Raises:
            WeightMismatchError: if the module is no longer the blueprint's.
        """
        self.check_unchanged()
        save_program(self.blueprint, self.program, path)

    def extra_repr(self) -> str:
        """Describe the model in ``print(model)``."""
        program, sizes = self.program, self.blueprint.sizes
        text = (
            f"{program.names[program.output]}: up to {program.max_length} tokens of "
            f"{len(program.tokens)}, {len(self.values)} values; "
            f"{self.blueprint.selection.rule}, "
            + ", ".join(f"{name} {size}" for name, size in sizes.items())
        )
        return text + self._warning()

    def _rebuilt(self) -> ProgramModel:
        fresh = ProgramModel(
            self.blueprint,
            self.program,
            self._record.statement,
            self.executor,
            self._format(),
            self.outside,
        )
        fresh.network.to(self._home().device)
        return fresh

    def _format(self) -> torch.dtype:
        return self._home().dtype

    def _home(self) -> Tensor:
        return self.network.unembed.weight

    def _check_proven(self) -> None:
        """Raise after ``.to(dtype)`` where decoded outputs are not proven to be right."""
        self._certificate.proof.outcome(self.dtype)

    def _is_one(self, sequences: Any) -> bool:
        """Whether this is one sequence of tokens rather than several."""
        if isinstance(sequences, str):
            return True
        try:
            items = list(sequences)
        except TypeError:
            raise InputError(f"decode takes tokens, not {sequences!r}") from None
        known = set(self.vocabulary)
        if all(_is_token(item, known) for item in items):
            return True
        several = all(isinstance(item, list | tuple | str) for item in items)
        return not several or all(isinstance(item, str) and len(item) == 1 for item in items)

    def _ids(self, x: Any) -> Tensor:
        home = self._home()
        if is_recording():
            raise ExecutionError(
                "torch.jit.trace would keep the check of these tokens for all others; trace "
                "model.network, which checks nothing"
            )
        check_products(home.dtype)
        numbers = as_tensor(x, torch.float64, home.device, "tokens")
        check_values(numbers, "tokens")
        if numbers.dtype == torch.uint64 and bool((numbers.view(torch.int64) < 0).any()):
            raise InputError("numbers of tokens are below 2^63")
        if numbers.dim() not in (1, 2) or not numbers.numel():
            raise InputError(
                f"tokens by number have the shape (n,) or (batch, n); the shape is "
                f"{tuple(numbers.shape)}"
            )
        if numbers.is_floating_point():
            if not bool((numbers == numbers.round()).all()):
                raise InputError("tokens are given by number, and numbers of tokens are whole")
            numbers = numbers.clamp(-(2.0**31), 2.0**31)
        return numbers.long().to(home.device)

    def _inside(self, ids: Tensor) -> Tensor | None:
        """Raise, or return which sequences are inputs of the model; None is all of them."""
        known = (ids >= PADDING) & (ids < len(self.vocabulary))
        ended = (ids[:, :-1] == PADDING) & (ids[:, 1:] != PADDING)
        inside = known.all(1) & ~ended.any(1) & (ids[:, 0] != PADDING)
        inside = inside & ((ids != PADDING).sum(1) <= self.max_length)
        if bool(inside.all()) and ids.shape[1] <= self.max_length:
            return None
        if bool(inside.all()) or self.outside == "nan":
            return inside
        raise self._outside_error(ids[~inside][0])

    def _outside_error(self, ids: Tensor) -> OutsideDomainError:
        return OutsideDomainError(
            f"tokens have numbers 0 to {len(self.vocabulary) - 1}, at most {self.max_length} of them, "
            f"and −1 only after the end; this sequence has {ids.tolist()[:12]}"
        )


def _is_token(item: Any, known: set[Value]) -> bool:
    try:
        return not isinstance(item, list) and canonical(item) in known
    except InputError:
        return False


def _nested(items: Any, value: Any) -> list[Any]:
    return [_nested(item, value) if isinstance(item, list) else value(item) for item in items]


def _measured(
    numbers: list[float], seed: int, norm: str, parts: dict[str, Measured] | None = None
) -> Measured:
    values = np.array(numbers)
    error = float(values.std(ddof=1) / len(values) ** 0.5)
    return Measured(float(values.mean()), error, len(values), seed, norm, parts or {})


_MASKED = torch.finfo(torch.float32).min
"""In a trace, in place of −∞ for what may not be attended to, as far as the format goes."""

remember(ProgramModel)
