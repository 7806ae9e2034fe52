"""``ef.verify``: whether a module does what is claimed, on every input of a finite space."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.core.formats import (
    EXCLUDED,
    EXP_ULPS,
    FORMATS,
    KEYS_PER_BLOCK,
    REAL,
    Arithmetic,
    float_format,
)
from exactformer.core.words import plural
from exactformer.errors import CertificationError, InputError, SizeError
from exactformer.progress import duration
from exactformer.verification.balls import Ball
from exactformer.verification.claims import FunctionClaim
from exactformer.verification.engine import Engine
from exactformer.verification.exhaustive import LISTED, Exhaustive, Tally
from exactformer.verification.graph import Graph, read
from exactformer.verification.growth import growth
from exactformer.verification.measured import Measured
from exactformer.verification.settling import settle
from exactformer.verification.space import Space
from exactformer.verification.verdict import Case, Verdict
from exactformer.version import __version__

METHODS = ("exhaustive",)
ARITHMETICS = ("real", *FORMATS, "execution")
_LONGEST = 3 * 24 * 3600.0
"""Seconds that an enumeration may be expected to take, unless it is given a time."""
_SAMPLE = 32


@dataclass(frozen=True)
class Model:
    """A module, with its graph and its engine for each length."""

    module: nn.Module
    graphs: dict[int, Graph]
    engines: dict[int, Engine]
    arithmetic: str
    answers: int
    """How many answers its logits choose from."""
    positions: dict[int, int]
    """Positions with logits by length; 0 for one answer per input."""
    device: torch.device

    def says(self, ids: Tensor) -> Tensor:
        """Return what the module answers when it is run, of shape (batch, positions)."""
        with torch.no_grad():
            logits = self.module(torch.cat([ids, ids]))[: len(ids)]
        return torch.as_tensor(logits).argmax(-1).reshape(len(ids), -1)


def verify(
    thing: nn.Module,
    claim: Callable[..., Any] | nn.Module,
    *,
    vocabulary: Iterable[Any],
    length: int | Iterable[int],
    answers: Iterable[Any] | None = None,
    arithmetic: str | None = None,
    batched: bool = False,
    method: str | None = None,
    seconds: float | None = None,
    resume: Verdict | None = None,
    batch: int | None = None,
    show_progress: bool = True,
) -> Verdict:
    """Decide whether a module answers as claimed on every input, rounding included.

    The module takes token ids of shape (batch, n) and returns logits of shape (batch, answers) or
    (batch, n, answers); the largest logit is its answer. Equal logits are undecided. What is decided
    holds for every execution in the arithmetic, in any order of summation; ``"real"`` is about real
    numbers, ``"execution"`` is what one run on this machine showed.

    Args:
        thing: The module, in evaluation mode.
        claim: A function that takes a tuple of tokens and returns the right answer, or one answer per
            position; a RASP program is one. Or another module: the same answers as it gives.
        vocabulary: The tokens, in the order of their ids.
        length: How many tokens inputs have; several numbers for inputs of each length.
        answers: What the logits stand for, in order; the vocabulary if absent.
        arithmetic: ``"real"``, ``"float64"``, ``"float32"``, ``"bfloat16"``, ``"float16"`` or
            ``"execution"``; the number format of the module's own weights if absent.
        batched: Whether the claim takes a tensor of ids of shape (batch, n) and returns one of ids.
        method: The engine; the only one so far is ``"exhaustive"``.
        seconds: Return what is decided after so many seconds.
        resume: A verdict that ended early; it is continued.
        batch: Inputs at a time; whatever is fastest if absent.
        show_progress: Show inputs per second and the time left.

    Returns:
        A verdict. Ctrl-C returns the verdict so far.

    Raises:
        InputError: for what is not covered, by name and line, with the way out.
        SizeError: where all inputs would take too long, and no time was given.
        CertificationError: where the module, when it is run, contradicts its own graph.
    """
    begin = monotonic()
    if method not in (None, *METHODS):
        raise InputError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    space = Space.of(vocabulary, length)
    if isinstance(claim, nn.Module) and (batched or answers is not None):
        raise InputError("batched= and answers= are about functions; the claim is a module")
    if not isinstance(claim, nn.Module) and not callable(claim):
        raise InputError(f"the claim is {claim!r:.60}; it must be a function or a module")
    question = ask(thing, claim, space, answers, arithmetic, batched)
    if resume is not None and resume.digests != question.digests:
        raise InputError("resume= is a verdict about another model, or other inputs")
    walk, tally = question.walk, _resumed(resume)
    _check_size(walk, batch, seconds, show_progress)
    ended = walk.run(tally, batch, seconds, show_progress)
    left = None if seconds is None else max(seconds - (monotonic() - begin), 0.0)
    how = settle(walk, tally, left) if ended is None else ""
    return _verdict(question, tally, ended, how, begin, resume)


@dataclass(frozen=True)
class Question:
    """What is asked: a model, a claim about it, and how each input is decided."""

    walk: Exhaustive
    model: Model
    other: Model | None
    """The second model, where the claim is one."""
    function: FunctionClaim | None
    answers: tuple[Any, ...]

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each graph by name."""
        made = {f"length {n}": graph.digest for n, graph in self.model.graphs.items()}
        if self.other is not None:
            claims = self.other.graphs.items()
            made |= {f"claim, length {n}": graph.digest for n, graph in claims}
        return made


def ask(
    thing: nn.Module,
    claim: Callable[..., Any] | nn.Module,
    space: Space,
    answers: Iterable[Any] | None,
    arithmetic: str | None,
    batched: bool,
) -> Question:
    """Read what a user hands in; refuse what does not fit together."""
    model = read_model(thing, space, arithmetic)
    function, other = None, None
    if isinstance(claim, nn.Module):
        other = read_model(claim, space, arithmetic)
        _check_alike(model, other)
        options = tuple(range(model.answers))
    else:
        options = space.vocabulary if answers is None else tuple(answers)
        _check_answers(options, model.answers, answers is None)
        function = FunctionClaim(claim, space, options, batched)
    others = None if other is None else other.engines
    walk = Exhaustive(space, model.engines, others, function, model.positions, model.device)
    return Question(walk, model, other, function, options)


def read_model(module: nn.Module, space: Space, arithmetic: str | None) -> Model:
    """Read a module on inputs of each length, and see that running it does what its graph says."""
    if not isinstance(module, nn.Module):
        raise InputError(f"{type(module).__name__} is not a torch module: hand in an nn.Module")
    tensors = [*module.parameters(), *module.buffers()]
    device = tensors[0].device if tensors else torch.device("cpu")
    graphs = {n: read(module, n, device) for n in space.lengths}
    dtype = next(iter(graphs.values())).dtype
    own = str(dtype).removeprefix("torch.")
    name = own if arithmetic is None else arithmetic
    if name not in ARITHMETICS:
        raise InputError(f"arithmetic is {name!r}; it must be one of {', '.join(ARITHMETICS)}")
    if name in FORMATS and FORMATS[name].unit > FORMATS[own].unit:
        raise InputError(
            f"the weights are {own}, which {name} cannot hold: cast the module first, "
            f"module.to(torch.{name})"
        )
    engines: dict[int, Engine] = {}
    sizes: set[int] = set()
    positions: dict[int, int] = {}
    usual = Arithmetic.of(float_format(own))
    for n, graph in graphs.items():
        engine = Engine(graph, usual, device)
        answers, places = _try(module, engine, space, n, device)
        sizes.add(answers)
        positions[n] = places
        if name == "execution":
            engines[n] = Measured(module, graph, device)
        elif name == own:
            engines[n] = engine
        else:
            target = REAL if name == "real" else Arithmetic.of(FORMATS[name])
            engines[n] = Engine(graph, target, device)
    if len(sizes) > 1:
        raise InputError(f"the number of logits depends on the length: {sorted(sizes)}")
    return Model(module, graphs, engines, name, sizes.pop(), positions, device)


def _try(
    module: nn.Module, engine: Engine, space: Space, n: int, device: torch.device
) -> tuple[int, int]:
    """Run the module on some inputs, and see that its logits lie in the balls of its graph."""
    count = space.count(n)
    numbers = sorted({count * k // _SAMPLE for k in range(_SAMPLE)} | {count - 1}) * 2
    size = len(space.vocabulary)
    rows = [[number // size ** (n - 1 - k) % size for k in range(n)] for number in numbers]
    ids = torch.tensor(rows, device=device)
    table = _rows_of_embedding(engine)
    if table is not None and size > table:
        raise InputError(f"the vocabulary has {size} tokens, the model's embedding {table} rows")
    ctx = engine.context()
    logits = engine(ids, ctx)
    with torch.no_grad():
        run = module(ids)
    if not isinstance(run, Tensor) or run.ndim not in (2, 3) or run.shape[0] != len(ids):
        raise InputError(
            "the module must return logits of shape (batch, answers) or (batch, n, answers)"
        )
    if run.shape[-1] < 2 or (run.ndim == 3 and run.shape[1] != n):
        raise InputError(f"logits have shape {tuple(run.shape)} for inputs of length {n}")
    off = (run.double() - logits.c).abs() > logits.radius
    if bool(off.any()) and not ctx.overflow():
        place = int(off.reshape(len(ids), -1).any(1).nonzero()[0, 0])
        raise CertificationError(
            f"the module does not do what its graph says: on {list(space.tokens(rows[place]))} its "
            "logits are not those of its operators. A hook, a patched function, or an excluded kernel "
            f"({EXCLUDED}) can be why"
        )
    return run.shape[-1], run.shape[1] if run.ndim == 3 else 0


def _rows_of_embedding(engine: Engine) -> int | None:
    for node in engine.graph.nodes:
        if node.name == "aten.embedding.default" and node.data:
            table = engine.fixed(node.args[0].node)
            return table.shape[0] if isinstance(table, Ball) else None
    return None


def _check_alike(model: Model, other: Model) -> None:
    if (model.answers, model.positions) != (other.answers, other.positions):
        raise InputError(
            f"the models have {model.answers} and {other.answers} logits, or differ in positions; "
            "only models with the same answers can be compared"
        )
    if model.device != other.device:
        raise InputError(f"the models are on {model.device} and {other.device}; use one device")


def _check_answers(options: tuple[Any, ...], logits: int, usual: bool) -> None:
    if len(options) != logits:
        named = "tokens in the vocabulary" if usual else "answers"
        raise InputError(
            f"the model has {logits} logits, but there are {len(options)} {named}; name what the "
            "logits stand for, in order, with answers="
        )
    if len(set(options)) < len(options):
        raise InputError("answers= has one answer twice; each logit stands for one")


def _check_size(walk: Exhaustive, batch: int | None, seconds: float | None, show: bool) -> None:
    total = walk.space.total
    if not walk.space.fits():
        raise SizeError(
            f"{total:.3g} inputs cannot be enumerated: choose a shorter length or a smaller vocabulary"
        )
    if seconds is not None or total < 10**6:
        return
    rate = walk.rate(batch or 1024, walk.space.lengths[-1])
    if total / rate > _LONGEST:
        raise SizeError(
            f"{plural(total, 'input')} would take about {duration(total / rate)} here "
            f"({rate:,.0f} per second). Give the time you have with seconds=, choose a shorter length, "
            "or move the module to a GPU"
        )


def _resumed(verdict: Verdict | None) -> Tally:
    if verdict is None:
        return Tally()
    return Tally(
        next=verdict.total - verdict.unseen,
        right=verdict.right,
        wrong=[case.number for case in verdict.counterexamples],
        wrong_count=verdict.wrong,
        doubtful=[case.number for case in verdict.undecided],
        doubtful_count=verdict.doubtful,
        margin=torch.inf if verdict.margin is None else verdict.margin,
        bound=verdict.bound or 0.0,
        points=list(verdict.points),
    )


def _verdict(
    question: Question,
    tally: Tally,
    ended: str | None,
    how: str,
    begin: float,
    resume: Verdict | None,
) -> Verdict:
    walk, model = question.walk, question.model
    reasons = dict(tally.reasons)
    inside = tally.doubtful_count - sum(reasons.values())
    if inside > 0:
        where = growth(walk, tally.doubtful[0]) if tally.doubtful else ""
        reasons[f"a margin is within what rounding can move it{where}"] = inside
    if ended is not None:
        reasons[f"not reached: {ended}"] = walk.space.total - tally.next
    method = "every input by balls" if model.arithmetic != "execution" else "every input, run once"
    if how:
        method += f"; {how}"
    if resume is not None:
        stated = ", stated by a file" if resume.stated else ""
        method += (
            f"; the first {resume.total - resume.unseen:,} inputs by an earlier verdict{stated}"
        )
    wrong = run_cases(question, tally.wrong, "")
    _check_wrong(wrong, question)
    return Verdict(
        claim=_words(question),
        arithmetic=model.arithmetic,
        assumptions=assumptions(model.arithmetic),
        method=method,
        vocabulary=walk.space.vocabulary,
        lengths=walk.space.lengths,
        answers=question.answers,
        total=walk.space.total,
        right=tally.right,
        wrong=tally.wrong_count,
        doubtful=tally.doubtful_count,
        counterexamples=wrong,
        undecided=run_cases(question, tally.doubtful, next(iter(reasons), "")),
        reasons=reasons,
        margin=tally.margin if tally.right else None,
        bound=tally.bound if tally.right else None,
        closest=tally.closest,
        points=tuple(tally.points),
        digests=question.digests,
        versions={
            "exactformer": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        seconds=monotonic() - begin + (0.0 if resume is None else resume.seconds),
        device=_device(model.device),
        stated=resume is not None and resume.stated,
    )


def run_cases(question: Question, numbers: Iterable[int], reason: str) -> tuple[Case, ...]:
    """Run the model on inputs by number."""
    walk, model, made = question.walk, question.model, []
    listed = list(numbers)[:LISTED]
    for n in walk.space.lengths:
        start = walk.space.start(n)
        own = [k for k in listed if 0 <= k - start < walk.space.count(n)]
        if not own:
            continue
        ids = walk.space.rows(torch.tensor([k - start for k in own], device=model.device), n)
        says = model.says(ids).tolist()
        rights = right_answers(question, ids, n)
        for number, row, said, right in zip(own, ids.tolist(), says, rights, strict=True):
            tokens, answers = walk.space.tokens(row), question.answers
            both = (tuple(answers[a] for a in part) for part in (said, right))
            made.append(Case(number, tokens, next(both), next(both), reason))
    return tuple(made)


def right_answers(question: Question, ids: Tensor, length: int) -> list[list[int]]:
    """Return the ids of the right answers of some inputs."""
    if question.other is not None:
        answers: list[list[int]] = question.other.says(ids).tolist()
        return answers
    assert question.function is not None
    positions = question.model.positions[length]
    return [question.function.at(row, positions) for row in ids.tolist()]


def _check_wrong(cases: tuple[Case, ...], question: Question) -> None:
    """Raise where a run contradicts a proof: then the kernels are not those of the claim."""
    model = question.model
    own = str(next(iter(model.graphs.values())).dtype).removeprefix("torch.")
    if question.other is not None or model.arithmetic not in (own, "execution"):
        return
    for case in cases:
        if case.says == case.right:
            raise CertificationError(
                f"on {list(case.tokens)} the model is proven wrong in {own}, but this run answers "
                f"right: the run does not follow the assumptions ({EXCLUDED})"
            )


def assumptions(arithmetic: str) -> str:
    """Return what a verdict in an arithmetic rests on."""
    if arithmetic == "execution":
        return "nothing is proven: one run on this machine, in its batches"
    if arithmetic == "real":
        return "exact real arithmetic on the weights as they are stored"
    form = FORMATS[arithmetic]
    flush = "subnormal numbers kept or flushed" if form.flushes else "subnormal numbers kept"
    return (
        f"round to nearest in {arithmetic}; sums in any order, with fused products or not; {flush}; "
        f"exponentials to {EXP_ULPS[arithmetic]} units in the last place; fused attention in blocks of "
        f"{KEYS_PER_BLOCK} keys or more; not covered: {EXCLUDED}"
    )


def _words(question: Question) -> str:
    space, model = question.walk.space, question.model
    other, function = question.other, question.function
    what = "the second model" if function is None else function.words
    lengths = ", ".join(map(str, space.lengths))
    where = {
        "real": "real arithmetic",
        "execution": "this execution (measured)",
    }.get(model.arithmetic, f"{model.arithmetic}, any order of sums")
    if other is not None and other.arithmetic != model.arithmetic:
        where += f" against {other.arithmetic}, any order of sums"
    name = type(model.module).__name__
    return (
        f"{name} answers as {what} on every input of length {lengths} over "
        f"{plural(len(space.vocabulary), 'token')}, in {where}"
    )


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return device.type
