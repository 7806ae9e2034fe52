"""What pages say about the papers and the trusted base, made from the ledger and the stored results.

A page holds it between ``<!-- made: KIND NAME -->`` and ``<!-- end -->``, so that it reads well in the
repository, too: ``errata PAPER``, a paper's errata by claim; ``claims PAPER``, its claims with their
verdicts; ``counts ledger``, how many claims of each paper have which verdict; ``trusted lemmas`` and
``trusted shared``, the tables of the trusted base. ``python docs/claims.py`` writes them anew; a test
compares.
"""

import re
import tomllib
from collections import Counter
from pathlib import Path

from exactformer.claims import MEANINGS, PAPERS, Claim, Judgement, Verdict, judge, ledger
from exactformer.experiments.engine.stored import stored_runs

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
TRUSTED = ROOT / "src" / "exactformer" / "core" / "trusted_base.toml"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(<!-- made: (\w+) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def made(text: str, results: Path = RESULTS) -> str:
    """Return a page with everything that is made in it made anew."""
    kinds = {
        "errata": lambda paper: errata(paper, results),
        "claims": lambda paper: claims(paper, results),
        "counts": lambda _: counts(results),
        "trusted": trusted,
    }
    return BLOCK.sub(lambda m: f"{m[1]}\n{kinds[m[2]](m[3]).strip()}\n\n{m[4]}", text)


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
        lines += [f'<a id="{paper}-{claim.id}"></a>', "", f"### {claim.title}", ""]
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


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(made(page.read_text()))
