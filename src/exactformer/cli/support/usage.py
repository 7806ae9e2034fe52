"""What the command line does with mistakes: one message, exit code 2, no traceback.

With ``--json`` the message is a JSON object ``{"error": class, "message": text}`` on stdout, so that
a program reads one stream whatever happens.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from exactformer.cli.support.output import print_error, print_json
from exactformer.errors import ExactformerError

_JSON = "exactformer.json"
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class Group(TyperGroup):
    """Turns what the package raises into messages."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note whether JSON is asked for: mistakes in other options are reported that way too."""
        ctx.meta[_JSON] = "--json" in (args[: args.index("--")] if "--" in args else args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; whatever is wrong is said once."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            raise  # whoever read our output has had enough: not a mistake
        except ExactformerError as error:
            _fail(ctx, type(error).__name__, str(error))
        except OSError as error:
            named = f"{error.filename}: " if error.filename else ""
            _fail(ctx, type(error).__name__, f"{named}{error.strerror or error}")
        except MemoryError:
            _fail(ctx, "MemoryError", "this needs more memory than the machine has")
        except _UsageError as error:
            if not ctx.meta[_JSON]:
                raise
            _fail(ctx, "UsageError", error.format_message())  # type: ignore[attr-defined]


class Command(TyperCommand):
    """Lets a polynomial begin with a minus: ``-x^2`` is no option, so it is an argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep what starts with one dash and is no declared option from being read as one."""
        options = {name for parameter in self.params for name in parameter.opts}
        options.update(ctx.help_option_names)
        end = args.index("--") if "--" in args else len(args)
        shielded = [f" {a}" if _is_value(a, options) else a for a in args[:end]]
        return super().parse_args(ctx, shielded + args[end:])


def _is_value(argument: str, options: set[str]) -> bool:
    return len(argument) > 1 and argument[0] == "-" != argument[1] and argument[:2] not in options


def _fail(ctx: Any, kind: str, message: str) -> None:
    if ctx.meta[_JSON]:
        print_json({"error": kind, "message": message})
    else:
        print_error(message)
    raise typer.Exit(2)
