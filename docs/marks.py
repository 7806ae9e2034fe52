"""Marks of evidence: a sentence that claims much names what holds it, or the site is not built.

Outside code and what is made from the ledger, a paragraph, list item or row of a table that says
*proven*, *independent* or *reproduced*, or has a number with a unit, ×, % or an exponent, carries a
mark, ``<!-- by NAME -->``, or reads its number with ``{{ value: … }}``. NAME is a test
(``tests/….py::test_…``), a claim of the ledger (``PAPER/ID``), a lemma of the trusted base (``L3``), a
stored run or a benchmark by its name, ``code`` for what a script of the page prints, or ``definition``
where the sentence says what a word or an option means. A mark under a heading holds for its section.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

from exactformer.claims import PAPERS, ledger

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
MADE = re.compile(r"<!-- made: .*?<!-- end -->", re.DOTALL)
MARK = re.compile(r"<!-- by ([^>]+?) -->")
WORDS = re.compile(r"\b(?:proven|independent(?:ly)?|reproduced)\b", re.IGNORECASE)
NUMBER = re.compile(
    r"(?<![\w.])\d[\d,.]*(?:[–-]\d[\d.]*)? ?(?:%|×|per cent\b|(?:µs|ms|s|seconds?|minutes?|hours?|"
    r"[KMGT]i?B|bytes?|bits?)\b)|(?<![\w.])\d[\d.]*e[-−]?\d+|10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"
)
INLINE = re.compile(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)|<[^>]+>")


def on_page_markdown(markdown, page, config, files):
    if found := unmarked(markdown):
        raise ValueError(f"{page.file.src_uri}: no mark names the evidence for: {found[0]}")
    return markdown


def unmarked(markdown: str) -> list[str]:
    """Return what a page claims without a mark; an unknown mark raises."""
    for mark in MARK.findall(markdown):
        for name in mark.split(", "):
            if not _is_known(name):
                raise ValueError(f"the mark {name!r} names no test, claim, lemma, run or benchmark")
    text = MADE.sub("", FENCE.sub("", markdown))
    found = []
    for section in re.split(r"(?m)^(?=#{1,6} )", text):
        body = section.partition("\n")[2] if section.startswith("#") else section
        blocks = _blocks(body)
        if blocks and MARK.fullmatch(blocks[0].strip()):
            continue  # the mark is of the section
        found += [block for block in blocks if _claims(block) and not _is_marked(block)]
    return [" ".join(block.split())[:160] for block in found]


def _blocks(text: str) -> list[str]:
    """Return paragraphs, items of lists and rows of tables."""
    parts = re.split(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. |\|)", text)
    return [part for part in parts if part.strip()]


def _claims(block: str) -> bool:
    plain = INLINE.sub(" ", block)
    return bool(WORDS.search(plain) or NUMBER.search(plain))


def _is_marked(block: str) -> bool:
    return bool(MARK.search(block) or "{{ value:" in block)


@cache
def _names() -> frozenset[str]:
    base = tomllib.loads((ROOT / "src/exactformer/core/trusted_base.toml").read_text())
    names = {"code", "definition"}
    names |= {row["lemma"] for row in base["row"]}
    names |= {f"{paper}/{claim.id}" for paper in PAPERS for claim in ledger(paper)}
    for folder in ("results", "benchmarks"):
        names |= {path.stem for path in (ROOT / folder).glob("*.json")}
        names |= {path.stem for path in (ROOT / folder).glob("*.md")}
    return frozenset(names)


def _is_known(name: str) -> bool:
    path, _, test = name.partition("::")
    if test:
        file = ROOT / path
        return file.is_file() and f"def {test}(" in file.read_text()
    return name in _names()


if __name__ == "__main__":
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in unmarked(page.read_text()):
            print(f"{page.relative_to(ROOT)}: {block}")
