"""Exit codes and messages: 0 for yes, 1 for no, 2 for misuse, 130 for Ctrl-C; never a traceback.

With ``--json`` the message is a JSON object ``{"error": class, "message": text}`` on stdout, so that
a program reads one stream whatever happens.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from exactformer.cli.support.output import print_error
from exactformer.errors import (
    AlteredFileError,
    CertificationError,
    DriftError,
    ExactformerError,
    ToleranceError,
)

_JSON = "exactformer.json"
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
_NO = (CertificationError, AlteredFileError, ToleranceError, DriftError)
_ARGUMENT = re.compile(
    r"\b([a-z_]+)=(?:'([^']+)'|(-?\d(?:[\w.]*\w)?)|Fraction\((\d+), (\d+)\)|(?=[\s.,;)]|$))"
)

_DESCRIBED = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def exit_code(error: Exception) -> int:
    """Return 1 if the answer is no (not proven, not reproduced), 2 for every other mistake."""
    return 1 if isinstance(error, _NO) else 2


class Group(TyperGroup):
    """Turns what the package raises into messages."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note whether JSON is wanted: mistakes in other options are reported that way too."""
        ctx.meta[_JSON] = "--json" in (args[: args.index("--")] if "--" in args else args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; report whatever is wrong once."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            message = "\n".join(["Interrupted.", *getattr(stop, "__notes__", [])])
            if ctx.meta[_JSON]:
                _fail(ctx, "Interrupted", message, 130)
            typer.echo(message, err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            raise  # whoever read our output has had enough: not a mistake
        except ExactformerError as error:
            command: Any = self.get_command(ctx, ctx.invoked_subcommand)
            _fail(ctx, type(error).__name__, as_options(str(error), command), exit_code(error))
        except OSError as error:
            named = f"{error.filename}: " if error.filename else ""
            _fail(ctx, type(error).__name__, f"{named}{error.strerror or error}")
        except MemoryError:
            _fail(ctx, "MemoryError", "this needs more memory than the machine has")
        except _UsageError as error:
            if not ctx.meta[_JSON]:
                raise
            _fail(ctx, "UsageError", error.format_message())  # type: ignore[attr-defined]


class DocumentedCommand(TyperCommand):
    """Takes the help of its options from the section ``Args:`` of the command's docstring.

    Lines are joined: the terminal decides where they break. A flag that is off by default has no
    opposite. Under ``python -OO``, which drops docstrings, commands work without their help.
    """

    def __init__(self, *, params: list[Any], help: str | None, **options: Any) -> None:
        text, _, described = (help or "").partition("\n\nArgs:\n")
        paragraphs = (paragraph.replace("\n", " ") for paragraph in text.split("\n\n"))
        super().__init__(params=params, help="\n\n".join(paragraphs), **options)
        helps = {name: " ".join(words.split()) for name, words in _DESCRIBED.findall(described)}
        for parameter in params:
            parameter.help = helps.pop(parameter.name, parameter.help)
            if parameter.default is False:
                parameter.secondary_opts = []
        if helps:
            raise TypeError(f"{self.name} has no parameter {', '.join(helps)}")


class Command(DocumentedCommand):
    """Lets a polynomial begin with a minus: ``-x^2`` is not an option, so it is an argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep text that starts with one dash and is not a declared option from being read as one."""
        options = _options(self) | set(ctx.help_option_names)
        end = args.index("--") if "--" in args else len(args)
        shielded = [f" {a}" if _is_value(a, options) else a for a in args[:end]]
        return super().parse_args(ctx, shielded + args[end:])


def as_options(message: str, command: Any) -> str:
    """Return a message in which arguments of Python are spelled as the command's own options.

    With the options --form and --tolerance, "form='compact', tolerance=0.1 or a larger tolerance="
    becomes "--form compact, --tolerance 0.1 or a larger --tolerance".
    """
    options = _options(command)

    def spelled(match: re.Match[str]) -> str:
        name, word, number, above, below = match.groups()
        option = f"--{name.replace('_', '-')}"
        value = f"{above}/{below}" if above else word or number
        return match[0] if option not in options else f"{option} {value}" if value else option

    return _ARGUMENT.sub(spelled, message)


def _options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def _is_value(argument: str, options: set[str]) -> bool:
    return len(argument) > 1 and argument[0] == "-" != argument[1] and argument[:2] not in options


def _fail(ctx: Any, kind: str, message: str, code: int = 2) -> None:
    with suppress(OSError):  # the stream that cannot be written to may be what is wrong
        try:
            print_error(kind, message, ctx.meta[_JSON])
        except OSError:
            print_error(kind, message, as_json=False)
    raise typer.Exit(code)
