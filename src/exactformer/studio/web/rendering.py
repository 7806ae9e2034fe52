"""Templates: where they lie, what all of them know, and how numbers and times look in them."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from exactformer.core.words import at_most, plural
from exactformer.experiments.engine.presentation import Line, Part
from exactformer.studio.settings import PACKAGE
from exactformer.studio.web.markup import minus, plain, typeset

TEMPLATES, STATIC = PACKAGE / "templates", PACKAGE / "static"


@cache
def environment() -> Environment:
    """The one environment that all pages are rendered in; everything is escaped."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(static=static, csrf_field=csrf_field, first_lines=first_lines)
    made.globals.update(switched=switched)
    made.filters.update(day=day, moment=moment, count=count, plural=plural, browser=browser)
    made.filters.update(typeset=typeset, plain=plain, minus=minus)
    made.filters.update(at_most=lambda value, digits=3: minus(at_most(value, digits)))
    return made


def first_lines(part: Part, most: int) -> list[Line]:
    """Return the lines of a table that are shown at first: all that differ, then others, in order."""
    telling = [line for line in part.lines if line.tone in ("warn", "bad")]
    others = [line for line in part.lines if line not in telling][: max(0, most - len(telling))]
    return [line for line in part.lines if line in telling[:most] or line in others]


@cache
def static(name: str) -> str:
    """The address of a shipped file, which changes when the file does."""
    digest = sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


@pass_context
def csrf_field(context: Context) -> Markup:
    """The hidden field every form needs."""
    return Markup('<input type="hidden" name="csrf_token" value="{}">').format(
        context["csrf_token"]
    )


def switched(is_on: bool) -> Markup:
    """The attributes of a button that is pressed, or not; it sends what pressing it leads to."""
    if is_on:
        return Markup('value="false" aria-pressed="true"')
    return Markup('value="true" aria-pressed="false"')


def day(time: datetime) -> str:
    """A date.

    >>> day(datetime(2022, 9, 1, 12, 30))
    '1 September 2022'
    """
    return f"{time.day} {time:%B %Y}"


def moment(time: datetime) -> Markup:
    """A time for people, with the exact one for programs."""
    return Markup('<time datetime="{}">{}, {}</time>').format(
        time.isoformat(timespec="seconds"), day(time), f"{time:%H:%M} UTC"
    )


def count(number: int) -> str:
    """A whole number with its thousands apart.

    >>> count(12345)
    '12,345'
    """
    return f"{number:,}"


def browser(agent: str) -> str:
    """What a browser calls itself, in two words.

    >>> browser("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36")
    'Chrome on Linux'
    """
    names = ("Edg", "Firefox", "Chrome", "Safari", "curl", "python")
    systems = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
    name = next((name for name in names if name.lower() in agent.lower()), "A program")
    system = next((f" on {system}" for system in systems if system in agent), "")
    return name.replace("Edg", "Edge").replace("python", "Python") + system


def fill(template: str, context: dict[str, Any]) -> str:
    """Render a template."""
    return environment().get_template(template).render(context)
