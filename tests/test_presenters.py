"""Command line, report, documentation and studio show one result in the same words and numbers."""

from __future__ import annotations

import html
import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exactformer.cli.commands.reproduce import _show
from exactformer.experiments import find, registry, write_report
from exactformer.experiments.engine.presentation import Presentation, present, tally
from exactformer.experiments.engine.result import Result, load
from exactformer.studio.evidence import claims, evidence
from exactformer.studio.library.tables import Claim
from exactformer.studio.web.markup import minus
from exactformer.studio.web.rendering import fill
from tests.experiments import made

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
STORED = sorted(path.stem for path in RESULTS.glob("*.json"))


@pytest.fixture(scope="module")
def hooks() -> Any:
    """The module by which mkdocs fills in tables."""
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a result that has one of everything."""
    rows = [
        made.row("σ_2 after mixing", [0.5], place="Table 0"),
        made.row("σ_1 after mixing", [1.2622], note="We do not know why."),
        made.row("off", [1.5], 1.0),
        made.row("closed form", [12345.6], 12345.6),
        made.row("seen | besides", [float("nan"), 1.0]),
    ]
    stated = [
        made.statement("every strength a > 0 raises the rank from 2 to 3", True),
        made.statement("the causal filter costs a linear RNN nothing: x² < z & more", False),
        made.statement("x² < z & more", False),
    ]
    result = made.result(rows, stated, name="jiang-mixing")
    monkeypatch.setattr(registry, "_registered", {"jiang-mixing": result.experiment})
    monkeypatch.setattr(registry, "_MODULES", {})
    result.save(tmp_path)
    return tmp_path


def words(shown: Presentation) -> list[str]:
    """Everything that each place must show."""
    lines = [line for part in shown.parts for line in part.lines]
    items = [item for part in shown.parts for item in part.items]
    texts = [text for line in lines for text in (line.label, line.ours, line.verdict, line.why)]
    texts += [line.reference for line in lines if line.reference != "–"]
    texts += [text for item in items for text in (item.mark, item.text)]
    return [shown.why, *(part.count for part in shown.parts), *filter(None, texts)]


def plain(text: str) -> str:
    """The text that a reader sees."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).replace(r"\|", "|").split())


def by_report(results: Path, scratch: Path) -> str:
    return plain(write_report(results, scratch / "page.html").read_text())


def by_terminal(result: Result, monkeypatch: Any, capsys: Any) -> str:
    monkeypatch.setenv("COLUMNS", "5000")
    _show(result)
    return plain(capsys.readouterr().out.replace("<", "&lt;"))


def claim_views(results: Path, names: list[str]) -> list[claims.ClaimView]:
    fields = {"kind": "table", "statement": "", "ledger": ""}
    every = [Claim(anchor=name, title=name, **fields) for name in names]
    return [
        claims.ClaimView(claim, claims.UNKNOWN, evidence=evidence.of(results, claim.anchor))
        for claim in every
    ]


def by_studio(results: Path, names: list[str]) -> str:
    views = claim_views(results, names)
    paper = SimpleNamespace(slug="a-paper")
    context = {"claims": views, "tally": claims.tally(views), "paper": paper, "mentions": {}}
    context |= {"meanings": claims.MEANINGS, "tones": claims.TONES, "live": {}, "runnable": ()}
    return plain(fill("papers/_claims.html", context))


def test_four_places_show_the_same_words_and_numbers(
    results: Path, tmp_path: Path, hooks: Any, monkeypatch: Any, capsys: Any
) -> None:
    path = results / "jiang-mixing.json"
    result = load(path, find("jiang-mixing"))
    places = {
        "report": by_report(results, tmp_path),
        "documentation": plain(hooks.table(path).replace("<", "&lt;")),
        "command line": by_terminal(result, monkeypatch, capsys),
        "studio": by_studio(results, ["jiang-mixing"]),
    }
    for place, text in places.items():
        for part in words(present(result)):
            assert plain(html.escape(part)) in text, (place, part)


@pytest.mark.spread(10)
@pytest.mark.parametrize("name", STORED)
def test_stored_results_read_alike_in_docs_and_studio(name: str, hooks: Any) -> None:
    shown = present(load(RESULTS / f"{name}.json", find(name)))
    docs = plain(hooks.table(RESULTS / f"{name}.json").replace("<", "&lt;"))
    studio = by_studio(RESULTS, [name])
    for part in words(shown):
        assert plain(html.escape(part)) in docs
        assert minus(plain(html.escape(part))) in studio


def test_report_and_docs_count_alike(tmp_path: Path, hooks: Any) -> None:
    shown = [present(load(RESULTS / f"{name}.json", find(name))) for name in STORED]
    report, docs = by_report(RESULTS, tmp_path), plain(hooks.overview(RESULTS))
    counted = tally(one.verdict for one in shown)
    assert sum(count for _, _, count in counted) == len(STORED)
    for name, _, count in counted:
        assert f"{name}: {count}" in report
        assert f"{name}: {count}" in docs.lower()
    for one in shown:
        assert plain(html.escape(one.counts)) in report
        assert plain(html.escape(one.counts)) in docs
