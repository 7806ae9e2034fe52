"""Pages about the papers, made from the ledger of claims and the stored results.

``{{ errata: PAPER }}`` is a paper's errata, claim by claim; ``{{ claims: PAPER }}`` its claims with
their verdicts; ``{{ counts: ledger }}`` how many claims of each paper have which verdict; and
``{{ verdict: PAPER/ID }}`` one verdict. ``{{ trusted: lemmas }}`` and ``{{ trusted: shared }}`` are
the tables of the library's trusted base. ``python docs/claims.py`` writes the counts into the README,
where a test compares them.
"""

import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

from exactformer.claims import MEANINGS, PAPERS, Claim, Judgement, Verdict, judge, ledger
from exactformer.experiments.engine.stored import stored_runs

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
TRUSTED = ROOT / "src" / "exactformer" / "core" / "trusted_base.toml"
MACRO = re.compile(r"\{\{ (errata|claims|counts|verdict|trusted): ([\w/-]+) \}\}")
BLOCK = re.compile(
    r"(<!-- counts: made by docs/claims.py -->\n).*?(<!-- end of counts -->)", re.DOTALL
)


def on_page_markdown(markdown, page, config, files):
    return filled(markdown)


def filled(markdown: str, results: Path = RESULTS) -> str:
    """Return a page with its macros carried out."""
    made = {
        "errata": lambda paper: errata(paper, results),
        "claims": lambda paper: claims(paper, results),
        "counts": lambda _: counts(results),
        "verdict": lambda name: str(_one(name, results)[1].verdict),
        "trusted": trusted,
    }
    return MACRO.sub(lambda match: made[match[1]](match[2]), markdown)


def judged(paper: str, results: Path = RESULTS) -> list[tuple[Claim, Judgement]]:
    """Return the claims of a paper with what the stored results say of them."""
    runs = stored_runs(results)
    return [(claim, judge(claim, runs)) for claim in ledger(paper)]


def errata(paper: str, results: Path = RESULTS) -> str:
    """Return what is wrong or loose in a paper's text, by claim, with the tests that show it."""
    lines = []
    for claim, one in judged(paper, results):
        if not claim.errata:
            continue
        lines += [f"### {claim.title} {{ #{paper}-{claim.id} }}", ""]
        lines += [f"{claim.place}. *{one.verdict}*.", ""]
        for erratum in claim.errata:
            kind = {"wrong": "", "slip": " (a slip)", "remark": " (a remark, no mistake)"}
            lines += [f"**{erratum.title}**{kind[erratum.weight]}**.** {erratum.text}", ""]
            if erratum.tests:
                lines += [f"Run by {_tests(erratum.tests)}.", ""]
    return "\n".join(lines)


def claims(paper: str, results: Path = RESULTS) -> str:
    """Return all claims of a paper with their verdicts, as a table."""
    lines = ["| claim | place | verdict | why |", "|---|---|---|---|"]
    for claim, one in judged(paper, results):
        title = (
            f"[{claim.title}](../theory/errata.md#{paper}-{claim.id})"
            if claim.errata
            else claim.title
        )
        cells = (title, claim.place, str(one.verdict), _why(claim, one))
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines)


def counts(results: Path = RESULTS) -> str:
    """Return how many claims of each paper have which verdict, as a table."""
    found = {paper: Counter(one.verdict for _, one in judged(paper, results)) for paper in PAPERS}
    shown = [Verdict(name) for name in MEANINGS if any(found[paper][name] for paper in PAPERS)]
    lines = [
        "| claims of | " + " | ".join(shown) + " | all |",
        "|---|" + "---:|" * (len(shown) + 1),
    ]
    for paper, of in found.items():
        name = PAPERS[paper].partition("), ")[0] + ")"
        numbers = [*(str(of[verdict] or "–") for verdict in shown), str(sum(of.values()))]
        lines.append(f"| {name} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def trusted(part: str) -> str:
    """Return a table of the trusted base: its lemmas, or what proofs share with constructions."""
    base = tomllib.loads(TRUSTED.read_text())
    if part == "lemmas":
        lines = ["| lemma | function | test |", "|---|---|---|"]
        for row in base["row"]:
            test = row["test"].rpartition("::")[2]
            lines.append(f"| {row['lemma']} | `{row['function']}` | `{test}` |")
    else:
        lines = ["| family | both use | which is |", "|---|---|---|"]
        for row in base["shared"]:
            names = ", ".join(f"`{name}`" for name in row["modules"])
            lines.append(f"| {row['family']} | {names} | {row['what']} |")
    return "\n".join(lines)


def readme(text: str, results: Path = RESULTS) -> str:
    """Return the README with its counts made anew."""
    return BLOCK.sub(lambda match: f"{match[1]}{counts(results)}\n{match[2]}", text)


def _why(claim: Claim, one: Judgement) -> str:
    return " ".join(
        filter(None, (one.why, _basis(claim) if one.verdict is Verdict.CORRECTED else ""))
    )


def _basis(claim: Claim) -> str:
    return (
        f"What is left is {' and '.join(claim.basis)}." if claim.lemmas or claim.conditions else ""
    )


def _tests(ids: tuple[str, ...]) -> str:
    return ", ".join(f"`{id.rpartition('::')[2]}`" for id in ids)


def _one(name: str, results: Path) -> tuple[Claim, Judgement]:
    paper, _, id = name.partition("/")
    for claim, one in judged(paper, results):
        if claim.id == id:
            return claim, one
    raise ValueError(f"{name} is not a claim of the ledger")


if __name__ == "__main__":
    page = ROOT / "README.md"
    text = readme(page.read_text())
    page.write_text(text)
    sys.exit(0 if BLOCK.search(text) else "README.md has no place for the counts")
