import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from exactformer.errors import InputError
from exactformer.experiments import register, reproduce, write_report
from exactformer.experiments.engine import presentation
from exactformer.experiments.engine.presentation import present
from exactformer.experiments.engine.report import page
from tests.experiments import made, toy

VOID = {"meta", "img", "br"}


class Strict(HTMLParser):
    """Fails on a tag that is not closed in order; gathers text and attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.attributes = [], [], []

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, name, value) for name, value in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parse(html):
    parser = Strict()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture
def html(tmp_path):
    register(toy.toy("ran", figure=None))
    register(toy.toy("waits"))
    reproduce("ran", scale="full", jobs=1, out=tmp_path)
    return write_report(tmp_path).read_text()


def test_the_page_parses_and_needs_nothing_from_elsewhere(html):
    parser = parse(html)
    links = [value for _, name, value in parser.attributes if name in ("src", "href")]
    assert links
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in links)
    assert not re.search(r"https?://|<script|<link|@import|url\(", html)


def test_the_page_tells_claim_print_ours_verdict_cost_and_command(html):
    text = " ".join(parse(html).text)
    for part in (
        "The small model's error is below the large one's.",
        "Nobody 2000, Table 0",
        "0.105",
        "beyond the paper",
        "agrees",
        "Within 10% of the expected value.",
        "✓ small is below large",
        "in 16 cells",
        "exactformer reproduce ran --scale full",
    ):
        assert part in text


def test_an_experiment_that_was_never_run_is_listed_with_its_command(html):
    text = " ".join(parse(html).text)
    assert "There is no stored run yet" in text
    assert "exactformer reproduce waits --scale default" in text


def test_the_same_results_give_the_same_page(html, tmp_path):
    assert write_report(tmp_path, tmp_path / "again.html").read_text() == html


def test_the_largest_scale_is_shown(tmp_path):
    register(toy.toy())
    for scale, folder in [("smoke", "smoke"), ("default", "default")]:
        reproduce("toy", scale=scale, jobs=1, out=tmp_path / folder)
    assert "at scale default" in write_report(tmp_path).read_text()


def test_nothing_in_a_result_can_become_markup():
    nasty = '<script>alert("&")</script>'
    rows = [made.row(nasty, [1.0], 1.0, place=nasty, note=nasty), made.row(f"{nasty}2", [1.0])]
    stated = [made.statement(nasty, False), made.statement(f"{nasty}2", True)]
    shown = present(made.result(rows, stated, title=nasty, claim=nasty, source=nasty))
    texts = ("name", "verdict", "why", "command", "scale", "cost")
    tones = {**presentation.TONES, nasty: nasty}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presentation, "TONES", tones)
        shown = replace(shown, **dict.fromkeys(texts, nasty), origin={nasty: nasty})
        html = page([(shown, b"<svg/>")])
    parse(html)
    assert "<script" not in html


def test_a_result_of_an_unknown_experiment_is_shown_and_not_judged(tmp_path):
    reproduce(toy.toy("forgotten"), scale="full", jobs=1, out=tmp_path)
    text = " ".join(parse(write_report(tmp_path).read_text()).text)
    assert "small, error" in text
    assert "not compared at scale full" in " ".join(text.split())
    assert "this version has no experiment of this name" in text


def test_an_empty_report_says_so():
    assert "No experiment has been run yet." in page([])


@pytest.mark.parametrize("folder", ["missing", "empty"])
def test_a_folder_without_results_is_refused_and_nothing_is_written(tmp_path, folder):
    results, page = tmp_path / folder, tmp_path / "page.html"
    if folder == "empty":
        results.mkdir()
    for out in (None, page):
        with pytest.raises(InputError, match=r"exactformer reproduce stores results"):
            write_report(results, out)
    assert not page.exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"] * (folder == "empty")
