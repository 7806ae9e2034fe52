"""The first picture of README and site: the program reverse as a transformer, drawn from a run of it.

``python docs/hero.py`` compiles the program, runs it on *stressed* and writes ``hero.svg`` and
``hero-dark.svg`` in ``assets/drawn``. Every number in them is read from that run or the certificate.
"""

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

WORD, VOCABULARY, MAX_LENGTH = "stressed", "derst", 8
FOLDER = Path(__file__).parent / "assets" / "drawn"
_PARTS = ("ink", "faint", "ours", "given", "line")
PALETTES = {
    "hero.svg": dict(zip(_PARTS, "#1b1d29 #666b82 #b3531e #4051b5 #c9ccd8".split(), strict=True)),
    "hero-dark.svg": dict(
        zip(_PARTS, "#e8e9f0 #a2a6b8 #f0a070 #9fb0ff #484c5e".split(), strict=True)
    ),
}
LEFT, STEP, TOP = 196, 64, 26


@dataclass(frozen=True)
class Run:
    """What the picture shows: one entry for each letter."""

    word: str
    share: float
    """The weight of every token in the head that looks at everything."""
    lengths: list[int]
    opposite: list[int]
    looks_at: list[int]
    """Where the last head has its largest weight."""
    weight: float
    """The least of these weights."""
    output: str
    certificate: list[str]


def run() -> Run:
    """Compile the program, run it on the word, and return what its heads and ReLUs did."""
    import exactformer as ef
    from exactformer.programs import library

    model = ef.compile_program(
        library.make_reverse(), vocabulary=VOCABULARY, max_length=MAX_LENGTH, realisation="softmax"
    )
    trace = model.trace([VOCABULARY.index(letter) for letter in WORD])
    first = trace["layer 0 pattern"][0]
    last = trace["layer 2 pattern"][0]
    start = last.shape[-1] - len(WORD)  # a beginning token, if there is one
    rows = last[start:, start:]
    softmax = model.certificate.bound().parts["softmax"]
    inputs = sum(len(VOCABULARY) ** n for n in range(1, MAX_LENGTH + 1))
    return Run(
        WORD,
        float(first[start, 0]),
        [round(1 / float(share)) - 1 for share in trace["length"][start:, 0]],
        trace["opposite index"][start:].sum(dim=-1).int().tolist(),  # a code of as many ones
        rows.argmax(dim=-1).tolist(),
        float(rows.max(dim=-1).values.min()),
        "".join(model.decode(WORD)),
        [
            f"every input: all {inputs:,} words of 1 to {MAX_LENGTH} letters, right",
            f"attention: softmax, off the hard maximum's output by at most {softmax:.2e}",
            f"float64: off by at most {model.certificate.bound():.2e}, and ½ would do",
        ],
    )


def svg(shown: Run, colours: dict[str, str]) -> str:
    """Return the picture in one set of colours."""
    letters = range(len(shown.word))
    places = [LEFT + STEP * k for k in letters]
    share = round(1 / shown.share)
    parts = []

    def write(
        x: float, y: float, text: str, size: int, colour: str, anchor: str = "middle"
    ) -> None:
        style = f'font-size="{size}" fill="{colours[colour]}" text-anchor="{anchor}"'
        parts.append(f'<text x="{x}" y="{y + TOP}" {style}>{escape(text)}</text>')

    def line(x1: float, y1: float, x2: float, y2: float, width: float = 1) -> None:
        style = f'stroke="{colours["line"]}" stroke-width="{width}"'
        parts.append(f'<path d="M{x1} {y1 + TOP}L{x2} {y2 + TOP}" {style}/>')

    for y, name, what in (
        (42, "input", "letters and places"),
        (96, "layer 0, head 0", f"looks at everything: 1/{share} each"),
        (149, "layer 0, ReLUs", "length"),
        (199, "layer 1, ReLUs", "opposite index"),
        (276, "layer 2, head 0", "looks where index = opposite"),
        (360, "output", f"one of {len(VOCABULARY)} letters, decoded"),
    ):
        write(0, y, name, 14, "ink", "start")
        write(0, y + 17, what, 11, "faint", "start")
    for k, x in enumerate(places):
        for other in places:
            line(x, 84, other, 126, 0.6)
        line(x, 158, x, 180)
        write(x, 44, shown.word[k], 24, "given")
        write(x, 63, str(k), 11, "faint")
        write(x, 153, str(shown.lengths[k]), 14, "ink")
        write(x, 202, str(shown.opposite[k]), 14, "ours")
        target = LEFT + STEP * shown.looks_at[k]
        curve = f"M{x} {222 + TOP}C{x} {290 + TOP} {target} {262 + TOP} {target} {332 + TOP}"
        parts.append(
            f'<path d="{curve}" fill="none" stroke="{colours["ours"]}" stroke-width="1.5"/>'
        )
        write(x, 366, shown.output[k], 24, "ours")
    for number, text in enumerate(shown.certificate):
        write(0, 412 + 18 * number, text, 13, "faint", "start")
    description = (
        f"The program reverse as a transformer of three layers: {shown.word} goes in, "
        f"{shown.output} comes out. Layer 0, head 0 looks at everything; ReLUs turn the share "
        f"1/{share} into the length {shown.lengths[0]}, and length and index into the opposite "
        "index; layer 2, head 0 looks where the index is the opposite one."
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 490" width="700" height="490" '
        'role="img" font-family="Georgia, serif" aria-labelledby="a b">'
        f'<title id="a">A program as a transformer</title><desc id="b">{escape(description)}</desc>'
        + "".join(parts)
        + "</svg>\n"
    )


if __name__ == "__main__":
    found = run()
    for name, palette in PALETTES.items():
        (FOLDER / name).write_text(svg(found, palette))
