"""Pictures that stand for a paper or a claim where somebody shares its address: title and verdicts.

A picture is made of what its page shows to everybody, on request, and kept while it stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from textwrap import shorten, wrap
from threading import Lock

from exactformer.studio.evidence.claims import ClaimView, Tally
from exactformer.studio.library.tables import Paper
from exactformer.studio.web.typesetting import plain

WIDTH, HEIGHT = 1200, 630
_INK, _FAINT, _PAPER = "#1b1d29", "#4a4e63", "#fcfcfd"
_TONES = {
    "good": "#1b6e3c",
    "accent": "#4051b5",
    "warn": "#815100",
    "bad": "#b3261e",
    "plain": "#666b82",
}
_LEFT, _LINE = 70, 60
_drawing = Lock()  # matplotlib's fonts are shared by all threads


@dataclass(frozen=True)
class Card:
    """What a picture shows, from top to bottom."""

    above: str
    title: str
    below: str
    tally: tuple[tuple[str, str, int], ...]


def of_paper(paper: Paper, tally: Tally) -> Card:
    """Return the card of a paper: who wrote it and when, and how its claims fared."""
    names = [place.person.name for place in paper.authorships[:4]]
    more = len(paper.authorships) - len(names)
    below = ", ".join(names) + (f" and {more} more" if more else "")
    return Card(str(paper.year or ""), plain(paper.title), below, tuple(tally))


def of_claim(paper: Paper, view: ClaimView, meaning: str) -> Card:
    """Return the card of a claim: its paper, its verdict and what that means."""
    verdict = ((view.status, view.tone, 1),)
    return Card(plain(paper.title), plain(view.claim.title), meaning, verdict)


@lru_cache(maxsize=200)
def draw(card: Card) -> bytes:
    """Return the picture as PNG."""
    with _drawing:
        return _png(card)


def _png(card: Card) -> bytes:
    from matplotlib import font_manager
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor=_PAPER)
    known = font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap()

    def write(x: float, y: float, text: str, size: float, colour: str, weight: str) -> None:
        shown = "".join(letter if ord(letter) in known else "□" for letter in text)
        figure.text(
            x / WIDTH, 1 - y / HEIGHT, shown, size=size, color=colour, weight=weight,
            family="DejaVu Sans", va="baseline", parse_math=False,
        )  # fmt: skip

    def block(x: float, width: float, colour: str) -> None:
        place = (x / WIDTH, 1 - 470 / HEIGHT), width / WIDTH, 34 / HEIGHT
        figure.add_artist(Rectangle(*place, facecolor=colour, edgecolor="none"))

    lines = wrap(card.title, 36, max_lines=3, placeholder=" …")
    write(_LEFT, 90, shorten(card.above, 84, placeholder=" …"), 17, _FAINT, "normal")
    for number, line in enumerate(lines):
        write(_LEFT, 165 + _LINE * number, line, 30, _INK, "bold")
    write(_LEFT, 400, shorten(card.below, 100, placeholder=" …"), 16, _FAINT, "normal")
    total, x = sum(count for _, _, count in card.tally), float(_LEFT)
    for _, tone, count in card.tally:
        width = (WIDTH - 2 * _LEFT) * count / total
        block(x, width - 3, _TONES[tone])
        x += width
    is_one = total == 1
    told = [name if is_one else f"{count} {name}" for name, _, count in card.tally]
    for number, line in enumerate(wrap(" · ".join(told), 84, max_lines=2, placeholder=" …")):
        write(_LEFT, 510 + 30 * number, line, 18, _INK, "bold" if is_one else "normal")
    write(_LEFT, 595, "exactformer studio", 15, _TONES["accent"], "bold")
    picture = BytesIO()
    figure.savefig(picture, format="png", facecolor=_PAPER, metadata={"Software": None})
    return picture.getvalue()
