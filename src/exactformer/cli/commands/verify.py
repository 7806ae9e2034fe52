"""``exactformer verify``: whether a model of one's own is right on every input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from exactformer.cli.support.options import Force, Json, Plot, out_file
from exactformer.cli.support.output import console, print_json, print_saved
from exactformer.errors import InputError


def verify(
    model: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:NAME", help="Your module: a name in a Python file, which is run."
        ),
    ],
    claim: Annotated[str | None, typer.Option()] = None,
    vocabulary: Annotated[str | None, typer.Option()] = None,
    length: Annotated[str | None, typer.Option()] = None,
    answers: Annotated[str | None, typer.Option()] = None,
    arithmetic: Annotated[str | None, typer.Option()] = None,
    batched: bool = False,
    seconds: Annotated[float | None, typer.Option(min=0)] = None,
    check: Annotated[Path | None, typer.Option()] = None,
    sample: Annotated[int, typer.Option(min=0)] = 1000,
    out: Annotated[Path | None, out_file(".json", help="Save the verdict here (.json).")] = None,
    plot: Plot = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Decide whether a PyTorch model answers as claimed on every input, rounding included.

    FILE.py is your own Python file: it is run, as Python runs it, and NAME in it is a module in
    evaluation mode, or a function that returns one. Leaves with 0 when the model agrees, with 1 when
    it does not or when something is undecided. Ctrl-C prints the verdict so far.

    Args:
        claim: What the model should answer: a function in FILE.py, another FILE.py:NAME (a function
            or a second model), max, min, or a RASP program by name, such as reverse.
        vocabulary: The tokens in the order of their ids: abc, or red,green, or 0..63.
        length: How many tokens inputs have: 4, or 1..8 for inputs of each length.
        answers: What the logits stand for, as tokens are written; the vocabulary if absent.
        arithmetic: real, float64, float32, bfloat16, float16, or execution for one measured run; the
            format of the weights if absent.
        batched: The claim takes a tensor of ids of shape (batch, n) and returns one of ids.
        seconds: Stop after so many seconds, with the share that is decided.
        check: Check this stored verdict again, in place of deciding every input.
        sample: Of --check: inputs to decide again.
    """
    from exactformer.figures import margins_figure, save_figure
    from exactformer.verification.recheck import recheck
    from exactformer.verification.verdict import Verdict
    from exactformer.verification.verify import verify as decide

    place, name = _place(model)
    thing = _module(_loaded(place, name))
    if claim is None:
        raise InputError(
            "--claim is missing: what should the model answer? For example --claim max"
        )
    right = _claim(claim, place)
    if check is not None:
        found = recheck(Verdict.load(check), thing, right, batched=batched, sample=sample)
        if as_json:
            facts = {"holds": found.holds, "confirmed": found.confirmed, "total": found.total}
            print_json({"file": str(check), **facts, "problems": list(found.problems)})
        else:
            console().print(str(found), soft_wrap=True)
        raise typer.Exit(0 if found.holds else 1)
    if vocabulary is None or length is None:
        missing = "--vocabulary" if vocabulary is None else "--length"
        raise InputError(f"{missing} is missing: all inputs are those of a vocabulary and a length")
    verdict = decide(
        thing,
        right,
        vocabulary=_tokens(vocabulary),
        length=_lengths(length),
        answers=None if answers is None else _tokens(answers),
        arithmetic=arithmetic,
        batched=batched,
        seconds=seconds,
        show_progress=not as_json,
    )
    if out is not None:
        verdict.save(out)
    if plot is not None:
        save_figure(margins_figure(verdict), plot)
    if as_json:
        print_json(verdict.to_dict(), out, plot)
    else:
        console().print(str(verdict), soft_wrap=True)
        print_saved(out, plot)
    raise typer.Exit(0 if verdict.agrees else 1)


def _place(text: str) -> tuple[Path, str]:
    file, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier() or not file.endswith(".py"):
        raise InputError(f"{text!r} is not FILE.py:NAME, such as model.py:net")
    return Path(file), name


def _loaded(file: Path, name: str) -> Any:
    """Run a user's own Python file and return a name of it."""
    import sys
    from importlib.util import module_from_spec, spec_from_file_location

    if not file.is_file():
        raise InputError(f"there is no file {file}")
    spec = spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise InputError(f"{file} is not a Python file")
    module = module_from_spec(spec)
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{file} cannot be run: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    if not hasattr(module, name):
        raise InputError(f"{file} defines no {name}")
    return getattr(module, name)


def _module(value: Any) -> Any:
    from torch import nn

    made = value() if callable(value) and not isinstance(value, nn.Module) else value
    if not isinstance(made, nn.Module):
        raise InputError(f"the model is a {type(made).__name__}, not a torch module")
    return made


def _claim(text: str, file: Path) -> Callable[..., Any]:
    usual: dict[str, Callable[..., Any]] = {"max": max, "min": min}
    if ":" in text:
        found: Any = _loaded(*_place(text))
    elif text in usual:
        found = usual[text]
    else:
        try:
            found = _loaded(file, text)
        except InputError:
            from exactformer.programs.library import program_of

            found = program_of(text)
    if not callable(found):
        raise InputError(f"the claim {text} is a {type(found).__name__}; it must be a function")
    return found  # type: ignore[no-any-return]


def _tokens(text: str) -> list[Any]:
    """Return tokens as they are written: abc, red,green, or 0..63.

    >>> _tokens("0..3"), _tokens("ab")
    ([0, 1, 2, 3], ['a', 'b'])
    """
    from exactformer.programs.token_text import read_vocabulary

    span = _span(text)
    return read_vocabulary(text) if span is None else list(span)


def _lengths(text: str) -> list[int]:
    span = _span(text) or _span(f"{text}..{text}")
    if span is None:
        raise InputError(f"--length is {text!r}; write a number, or 1..8")
    return list(span)


def _span(text: str) -> range | None:
    first, dots, last = (part.strip() for part in text.partition(".."))
    if not dots or not first.isdecimal() or not last.isdecimal() or len(text) > 40:
        return None
    return range(int(first), int(last) + 1)
