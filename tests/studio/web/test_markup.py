"""Markdown becomes safe HTML: what is wanted comes through, and nothing else ever does."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.studio.accounts import service as accounts
from exactformer.studio.errors import TooLargeError
from exactformer.studio.web import markup
from exactformer.studio.web.markup import Mentions, Surroundings, mentions, render
from tests.examples import examples
from tests.studio.support.payloads import PAYLOADS

AROUND = Surroundings("fang", frozenset({"table-1"}), frozenset({"ada"}))
ATTRIBUTES = {"a": {"href", "title", "rel", "class"}, "ol": {"start"}, "span": {"class"}} | {
    tag: {"class"} for tag in ("p", "td", "th")
}
ATTRIBUTES["span"] |= {"data-display"}


class Elements(HTMLParser):
    """The elements of a document, as a parser finds them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data!r}")

    def handle_decl(self, decl):
        raise AssertionError(f"a declaration: {decl!r}")

    def handle_pi(self, data):
        raise AssertionError(f"an instruction: {data!r}")


def check_safe(html: str) -> None:
    """Only listed elements with listed attributes, and links that lead where links may."""
    for tag, attributes in Elements(html).found:
        assert tag in markup.TAGS, html
        assert set(attributes) <= ATTRIBUTES.get(tag, set()), html
        assert set((attributes.get("class") or "").split()) <= markup.CLASSES.get(tag, set()), html
        if "href" in attributes:  # an address that no browser could read is dropped
            address = (attributes["href"] or "").lower()
            assert address.startswith(
                ("http://", "https://", "mailto:", "/papers/fang#", "/readers/")
            ), html
            assert attributes["rel"] == markup.RELATIONS


def test_there_are_at_least_a_hundred_payloads():
    assert len(set(PAYLOADS)) >= 100


@pytest.mark.parametrize(
    "frame", ["{}", "**{}**", "> {}", "[a]({})", "`{}", "$x$ {}", "|a|\n|-|\n|{}|"]
)
def test_no_known_payload_comes_through(frame):
    for payload in PAYLOADS:
        check_safe(render(frame.replace("{}", payload), AROUND))


@pytest.mark.parametrize(
    "frame", ["<{}>", "[a](<{}>)", "![a]({})", "[a]: {}\n\n[a]", "<a href='{}'>x</a>"]
)
@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\tscript:alert(1)",
        "&#106;avascript:alert(1)",
        "javascript&colon;alert(1)",
        "\x01javascript:alert(1)",
        "vbscript:msgbox(1)",
        "data:text/html,<script>alert(1)</script>",
        "data:image/svg+xml,<svg onload=alert(1)>",
        "file:///etc/passwd",
        "//evil.example/x",
        "\\\\evil.example",
        "/logout",
        "blob:null/x",
        "feed:javascript:alert(1)",
        "%6aavascript:alert(1)",
    ],
)
def test_other_schemes_make_no_link(frame, address):
    assert links(frame.replace("{}", address)) == []


pieces = st.one_of(
    st.sampled_from(PAYLOADS),
    st.sampled_from(
        "<a <b> </p> javascript: [x]( ) ![ $ $$ ` ``` * _ ~~ > - 1. | --- # @ada #table-1 & &lt; "
        "&#x3c; \\ https:// \" ' = on onerror= style= src= \n \n\n \t \x0b \ud7ff".split(" ")
    ),
    st.text(max_size=8),
)


@settings(max_examples=examples(400))
@given(st.lists(pieces, max_size=12).map("".join))
def test_no_text_ever_makes_more_than_is_allowed(text):
    check_safe(render(text, AROUND))


@settings(max_examples=examples(200))
@given(st.lists(pieces, max_size=12).map("".join))
def test_the_second_wall_finds_nothing_left_to_do_about_links(text):
    """Without the sanitiser the parser alone makes nothing but listed elements and safe links."""
    alone = markup._parser().render(text, {"surroundings": AROUND})
    for tag, attributes in Elements(alone).found:
        assert tag in markup.TAGS, alone
        assert not any(name.startswith("on") for name in attributes), alone
        assert "javascript:" not in (attributes.get("href") or "").lower()[:11], alone


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("*a* **b** ~~c~~ `d`", "<p><em>a</em> <strong>b</strong> <s>c</s> <code>d</code></p>\n"),
        ("# Head", '<p class="heading">Head</p>\n'),
        ("$a<b$", '<p><span class="math">a&lt;b</span></p>\n'),
        ("x $$a$$ y", '<p>x <span class="math" data-display="true">a</span> y</p>\n'),
        ("$$\na\n$$", '<p><span class="math" data-display="true">a</span></p>\n'),
        ("5$ and 6$ or \\$x\\$", "<p>5$ and 6$ or $x$</p>\n"),
        ("<b>a</b>", "<p>&lt;b&gt;a&lt;/b&gt;</p>\n"),
        ("<!-- a -->", "<p>&lt;!-- a --&gt;</p>\n"),
        ("```python\n<i>\n```", "<pre><code>&lt;i&gt;\n</code></pre>\n"),
        ("1e-7 `1e-7` $1e-7$", '<p>1e−7 <code>1e-7</code> <span class="math">1e-7</span></p>\n'),
        ("2. two", '<ol start="2">\n<li>two</li>\n</ol>\n'),
    ],
)
def test_markdown_and_mathematics_come_through(text, html):
    assert render(text) == html


def links(text, around=AROUND):
    found = Elements(render(text, around)).found
    return [attributes["href"] for _, attributes in found if "href" in attributes]


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("see #table-1.", ["/papers/fang#table-1"]),
        ("(#Table-1)", ["/papers/fang#table-1"]),
        ("#table-2, #table-12, a#table-1, ##table-1", []),
        ("`#table-1` $#table-1$ \\#table-1", []),
        ("@ada and @Ada", ["/readers/ada", "/readers/ada"]),
        ("@bob, x@ada, me@ada.org", []),
        ("https://a.org/x_y_z, and (http://b.org/c).", ["https://a.org/x_y_z", "http://b.org/c"]),
        ("<https://a.org> <me@a.org>", ["https://a.org", "mailto:me@a.org"]),
        ("[#table-1](https://a.org)", ["https://a.org"]),
        ('[x](https://a.org "title")', ["https://a.org"]),
        ("![picture](https://a.org/p.png)", ["https://a.org/p.png"]),
        ("[![picture](https://a.org/p.png)](https://b.org)", ["https://b.org"]),
        ("http://", []),
    ],
)
def test_what_is_mentioned_is_linked_where_it_exists(text, targets):
    assert links(text) == targets


def test_no_link_is_without_a_name():
    assert ">https://a.org</a>" in render("[](https://a.org)")
    assert ">https://a.org/p.png</a>" in render("![](https://a.org/p.png)")


def test_nothing_is_loaded_from_elsewhere():
    html = render("![a](https://evil.example/beacon.png) <img src=https://evil.example/b.png>")
    assert not any("src" in attributes for _, attributes in Elements(html).found)


def test_alignment_of_tables_is_a_class():
    html = render("|a|b|c|\n|:-:|-:|:-|\n|1|2|3|")
    assert '<td class="centre">1</td>' in html
    assert '<td class="right">2</td>' in html
    assert "<td>3</td>" in html


def test_mentions_are_names_in_prose():
    found = mentions("@Ada: #Table-1 and #lemma-3.3 but `@bob` and [#x](https://a.org)")
    assert found == Mentions(frozenset({"table-1", "lemma-3.3"}), frozenset({"ada"}))


def test_limits_are_stated():
    with pytest.raises(TooLargeError, match="20,000"):
        render("x" * 20_001)
    with pytest.raises(TooLargeError, match="100"):
        render("$$x$$\n" * 101)


def test_deep_nesting_ends():
    html = render("> " * 5_000 + "deep")
    assert html.count("<blockquote>") <= markup.NESTING


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        "![" * 10_000,
        "*a _b " * 3_000,
        "`" * 20_000,
        "<" * 20_000,
        "$" * 200 + "\\$" * 9_000,
        "- $$a\n" * 200,
        "|a" * 9_000,
        "http://" * 2_800,
        "@a#b" * 5_000,
    ],
)
def test_hostile_texts_are_rendered_too(text):
    check_safe(render(text, AROUND))


@pytest.mark.parametrize(("columns", "rows", "tables"), [(200, 4500, 1), (90, 100, 30)])
def test_short_rows_cannot_stand_for_many_cells(columns, rows, tables):
    table = "|a" * columns + "\n" + "|-" * columns + "\n" + "|\n" * rows
    with pytest.raises(TooLargeError, match="cells"):
        render("\n".join([table] * tables))


@pytest.mark.parametrize("odd", ["\x1c", "\x85", "\u2028", "\xa0"])
def test_only_blank_lines_end_a_table_that_is_counted(odd):
    text = "|a" * 200 + "\n" + "|-" * 200 + f"\n{odd}\n" + "|\n" * 3000
    with pytest.raises(TooLargeError, match="cells"):
        render(text)


def test_tables_that_are_written_out_are_shown_whole():
    written_out = "|a|b|\n|-|-|\n" + "|c|d|\n" * 3000
    assert render(written_out).count("<td>") == 6000


@pytest.mark.parametrize("handle", ["ada", "a__b", "a-_b", "a--b", "x_-y", "0-0", "a" * 40])
def test_every_handle_that_an_account_may_have_can_be_mentioned(handle):
    assert accounts.checked_handle(handle) == handle
    assert mentions(f"see @{handle}, please").handles == {handle}


def test_the_beginning_of_a_longer_name_is_nobody():
    assert not mentions("@" + "a" * 41).handles
