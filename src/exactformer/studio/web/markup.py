"""What readers write becomes HTML here, and nowhere else.

Text is CommonMark with tables, strikethrough and mathematics (``$…$``, ``$$…$$``). There are two
walls. The parser knows no raw HTML, links only to the web and to mail, and makes links of images,
so that nothing is loaded from elsewhere. Then a sanitiser reads the result with a browser's own
rules and keeps what is on a short list. Mathematics stays TeX in a ``span``; the browser sets it.

``#table-1`` links to a claim if the paper has it, ``@handle`` to a reader if there is one.

A title is one line of plain text, in which ``$…$`` is mathematics (:func:`typeset`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup
from mdit_py_plugins.dollarmath import dollarmath_plugin

from exactformer.studio.errors import InvalidError, TooLargeError
from exactformer.studio.security.actor import HANDLE
from exactformer.studio.web.types import UNSTORABLE

LIMIT = 20_000
"""Characters of one text. Time to render grows with them, so no caller is let past."""

CELLS = LIMIT // 2
"""Cells of all tables. Each takes two characters at least, unless rows are left short: those are
completed to the width of the table, so that a few characters would stand for many cells."""

DISPLAYS = 100
"""Displayed formulas of one text: the search for the end of each may run through all lines."""

NESTING = 20
"""Lists in quotes in lists …: what is deeper is shown as text."""

TAGS = frozenset(
    "a blockquote br code em hr li ol p pre s span strong table tbody td th thead tr ul".split()
)
CLASSES = {
    "a": {"mention"},
    "p": {"heading"},
    "span": {"math"},
    "td": {"centre", "right"},
    "th": {"centre", "right"},
}
SCHEMES = frozenset({"http", "https", "mailto"})
RELATIONS = "nofollow ugc noopener"

_MENTION = re.compile(
    r"(?<![\w/#@&.-])"
    r"(?:#(?P<anchor>[a-z0-9]+(?:[.-][a-z0-9]+)*)"
    rf"|@(?P<handle>{HANDLE})(?![a-z0-9])"
    r"|(?P<url>https?://[^\s<>\"']+))",
    re.IGNORECASE,
)
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_MATHEMATICS = re.compile(r"\$([^$]+)\$")
_DRESS = re.compile(r"\\(?:mathcal|mathbb|mathrm|mathbf|text|operatorname|left|right)\b|[{}]")
_EXPONENT = re.compile(r"(?<=\de)-(?=\d)")
_ALIGNMENTS = {"text-align:center": "centre", "text-align:right": "right"}


@dataclass(frozen=True)
class Surroundings:
    """Where a text stands: the paper's slug, anchors of its claims, and readers' handles."""

    slug: str = ""
    anchors: frozenset[str] = frozenset()
    handles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Mentions:
    """Names a text speaks of, whether or not anything bears them; lower case."""

    anchors: frozenset[str]
    handles: frozenset[str]


def render(text: str, surroundings: Surroundings | None = None) -> Markup:
    """Return ``text`` as HTML that is safe to show.

    >>> render("*yes*, by $x^2$")
    Markup('<p><em>yes</em>, by <span class="math">x^2</span></p>\\n')
    """
    around = surroundings or Surroundings()
    # Keep only the names that occur: one entry of the cache serves every paper that lacks them.
    return _render(
        checked(text),
        around.slug if "#" in text else "",
        frozenset(name for name in around.anchors if name in text.lower()),
        frozenset(name for name in around.handles if name in text.lower()),
    )


def mentions(text: str) -> Mentions:
    """Return the names of claims and readers in ``text``; code and mathematics have none."""
    env: dict[str, Any] = {"found": []}
    _parser().parse(checked(text), env)
    return Mentions(
        frozenset(match["anchor"].lower() for match in env["found"] if match["anchor"]),
        frozenset(match["handle"].lower() for match in env["found"] if match["handle"]),
    )


def checked(text: str) -> str:
    """Return ``text`` if it keeps to :data:`LIMIT`, :data:`CELLS` and :data:`DISPLAYS`."""
    if len(text) > LIMIT:
        raise TooLargeError(
            f"a text of {len(text):,} characters is more than the {LIMIT:,} allowed; shorten it"
        )
    if sum(map(_cells, re.split(r"\n[ \t]*\n", text))) > CELLS:
        raise TooLargeError(
            f"tables of more than {CELLS:,} cells in one text, counting those left out; shorten them"
        )
    if text.count("$$") > 2 * DISPLAYS:
        raise TooLargeError(f"more than {DISPLAYS} displayed formulas ($$…$$) in one text")
    return text


def _cells(block: str) -> int:
    """How many cells the lines of a block have if they are a table, at most."""
    rows = block.splitlines()
    return len(rows) * max((row.count("|") for row in rows), default=0)


@lru_cache(maxsize=512)
def _render(text: str, slug: str, anchors: frozenset[str], handles: frozenset[str]) -> Markup:
    around = Surroundings(slug, anchors, handles)
    return Markup(_cleaner().clean(_parser().render(text, {"surroundings": around})))


@lru_cache(maxsize=1)
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(TAGS),
        clean_content_tags={"script", "style"},
        attributes={"a": {"href", "title"}, "ol": {"start"}},
        tag_attribute_values={"span": {"data-display": {"true"}}},
        allowed_classes=CLASSES,
        url_schemes=set(SCHEMES),
        link_rel=RELATIONS,
    )


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": NESTING})
    parser.enable(["table", "strikethrough"])
    parser.use(
        dollarmath_plugin,
        allow_labels=False,
        allow_digits=False,
        allow_blank_lines=False,
        double_inline=True,
    )
    parser.core.ruler.after("inline", "mentions", _link_mentions)
    parser.core.ruler.push("plain", _make_plain)
    parser.validateLink = lambda url: _SAFE_LINK.match(url) is not None  # type: ignore[method-assign]
    for kind in ("math_inline", "math_inline_double", "math_block"):
        parser.add_render_rule(kind, _mathematics)
    parser.add_render_rule("text", _words)
    return parser


def _words(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return escape(minus(tokens[index].content))


def _mathematics(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    display = "" if token.type == "math_inline" else ' data-display="true"'
    span = f'<span class="math"{display}>{escape(token.content.strip())}</span>'
    return f"<p>{span}</p>\n" if token.block else span


def _make_plain(state: StateCore) -> None:
    """Turn headings into paragraphs (a page has its own outline), and alignment into classes."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
            if token.nesting == 1:
                token.attrSet("class", "heading")
        elif (style := token.attrs.pop("style", None)) in _ALIGNMENTS:
            token.attrSet("class", _ALIGNMENTS[str(style)])


def _link_mentions(state: StateCore) -> None:
    for block in state.tokens:
        if block.type == "inline" and block.children:
            block.children = list(_with_links(block.children, state.env))


def _with_links(tokens: Sequence[Token], env: Any) -> Iterator[Token]:
    """Link what is mentioned, put a link in an image's place, and show links without a name."""
    link: Token | None = None
    named = False
    for token in tokens:
        if token.type == "link_open":
            link, named = token, False
            yield token
        elif token.type == "link_close":
            if link is not None and not named:
                yield _text(str(link.attrGet("href")))
            link = None
            yield token
        elif token.type == "image":
            address = str(token.attrGet("src"))
            shown = token.content or address
            yield from [_text(shown)] if link else _link(address, shown)
            named = True
        elif token.type == "text" and link is None:
            yield from _split(token.content, env)
        else:
            named = named or bool(token.content.strip())
            yield token


def _split(text: str, env: Any) -> Iterator[Token]:
    around: Surroundings = env.get("surroundings", Surroundings())
    end = 0
    for match in _MENTION.finditer(text):
        env.get("found", []).append(match)
        shown, address = _target(match, around)
        if address:
            yield _text(text[end : match.start()])
            yield from _link(address, shown, "" if match["url"] else "mention")
            end = match.start() + len(shown)
    yield _text(text[end:])


def _target(match: re.Match[str], around: Surroundings) -> tuple[str, str]:
    """Return what a mention shows and where it leads (nowhere: the empty string)."""
    if match["url"]:
        url = match["url"].rstrip(".,;:!?*_~")
        url = url if "(" in url else url.rstrip(")")
        return url, url if _SAFE_LINK.match(url) else ""
    name = (match["anchor"] or match["handle"]).lower()
    if match["anchor"]:
        return match[0], f"/papers/{around.slug}#{name}" if name in around.anchors else ""
    return match[0], f"/readers/{name}" if name in around.handles else ""


def _link(address: str, shown: str, kind: str = "") -> Iterator[Token]:
    yield Token("link_open", "a", 1, attrs={"href": address, **({"class": kind} if kind else {})})
    yield _text(shown)
    yield Token("link_close", "a", -1)


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def bounded(name: str, text: str, limit: int, *, required: bool = False) -> str:
    """Return ``text`` ready to store, or say why it cannot be."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if len(text) > limit:
        raise TooLargeError(f"{name} has {len(text):,} characters; the limit is {limit:,}")
    if required and not text:
        raise InvalidError(f"{name} is empty; write a few words")
    if UNSTORABLE.search(text):
        raise InvalidError(f"{name} holds a character that is not text")
    return text


def prose(name: str, text: str, limit: int, *, required: bool = False) -> str:
    """Return ``text``, which will be shown as markdown, ready to store."""
    return checked(bounded(name, text, limit, required=required))


def minus(text: str) -> str:
    """Return ``text`` with the sign of minus in exponents: lines break after a hyphen.

    >>> minus("at most 6.6e-15 in C-e-5")
    'at most 6.6e−15 in C-e-5'
    """
    return _EXPONENT.sub("\N{MINUS SIGN}", text)


def plain(text: str) -> str:
    r"""Return ``text`` without dollars and commands, for places in which nothing can be drawn.

    >>> plain(r"$\mathcal{O}(n)$ connections, $\xi^2$")
    'O(n) connections, xi^2'
    """
    return _MATHEMATICS.sub(lambda found: _DRESS.sub("", found[1]).replace("\\", ""), text)


def typeset(text: str) -> Markup:
    """Return ``text`` as safe HTML; the browser draws what stands between dollars.

    >>> typeset("the $n$ < 2")
    Markup('the <span class="math">n</span> &lt; 2')
    """
    parts = _MATHEMATICS.split(text)
    return Markup("").join(
        Markup('<span class="math">{}</span>').format(part)
        if index % 2
        else Markup.escape(minus(part))
        for index, part in enumerate(parts)
    )
