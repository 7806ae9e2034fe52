"""Votes, reviews, comments, collections and moderation through the forms, without scripts."""

from __future__ import annotations

import dataclasses
import re

import pytest

from exactformer.studio.opinions.threads import DEPTH
from exactformer.studio.settings import Rate
from tests.studio.support.forms import follow, send
from tests.studio.support.markup_rules import violations
from tests.studio.support.shelves import SLUG, add_paper
from tests.studio.support.worlds import number_in

PAPER = f"/papers/{SLUG}"
HTMX = {"HX-Request": "true"}
SECRET = "xyzzy-unspeakable"
REVIEW = {"summary": "Sound, see #table-1: $x^2$.", "concerns": "Width.", "confidence": 4}


@pytest.fixture(autouse=True)
def paper(app):
    return add_paper(app)


def post(person, path, expected=303, **data):
    answer = person.client.post(path, data=data)
    assert answer.status_code == expected, answer.text
    return answer


def page(person, path, expected=200):
    answer = person.client.get(path)
    assert answer.status_code == expected, answer.text
    if expected == 200:
        assert violations(answer.text) == []
    return answer.text


def comment(person, body="A remark.", **more):
    return int(
        post(person, f"{PAPER}/comments", body=body, **more).headers["Location"].rsplit("-", 1)[1]
    )


def review_of(person):
    """The number of somebody's review, from the page that lists them."""
    return number_in(page(person, f"{PAPER}/reviews"), 'id="review-')


def hide(people, kind, number):
    post(people.other, f"/{kind}s/{number}/flag", reason="rude")
    queue = page(people.curator, "/moderation")
    flag = queue.split('action="/moderation/')[1].split('"')[0]
    post(people.curator, f"/moderation/{flag}", decision="upheld", note="be kind")
    return flag


@pytest.mark.parametrize(
    ("path", "data", "shown"),
    [
        ("vote", {"value": "1"}, "Like <b>1</b>"),
        ("vote", {"value": "-1"}, "Dislike <b>1</b>"),
        ("reaction", {"show": "useful"}, "useful <b>1</b>"),
        ("save", {"on": "true"}, "Saved <b>1</b>"),
        ("collect", {"title": "To read"}, "To read"),
    ],
)
def test_the_bar_answers_with_itself_or_leads_back(people, path, data, shown):
    assert post(people.reader, f"{PAPER}/{path}", **data).headers["Location"] == f"{PAPER}#opinions"
    answer = people.reader.client.post(f"{PAPER}/{path}", data=data, headers=HTMX)
    assert answer.status_code == 200
    assert shown in answer.text
    assert 'id="opinions"' in answer.text


def test_a_discussion_says_what_its_order_counts(people):
    first, *_ = [comment(people.reader, f"Remark {k}.") for k in range(3)]
    answered = comment(people.other, "An answer.", parent_id=first)
    comment(people.reader, "An answer to that.", parent_id=answered)
    text = page(people.visitor, f"{PAPER}/discussion")
    assert "Most replies first" in text
    assert "Replies to replies count, too" not in text
    text = page(people.visitor, f"{PAPER}/discussion?sort=replies")
    assert "Replies to replies count, too; of equals the newest comes first." in text
    assert text.index("Remark 0.") < text.index("Remark 2.") < text.index("Remark 1.")


def test_a_form_sent_twice_changes_nothing_more(people):
    for _ in range(2):
        post(people.reader, f"{PAPER}/vote", value="1")
        post(people.reader, f"{PAPER}/collect", title="Shelf")
    text = page(people.visitor, PAPER)
    assert "1 like<" in text
    assert "0 dislikes<" in text


def test_votes_reactions_and_saves_are_taken_back_by_the_same_buttons(people):
    def press(path, **data):
        return follow(people.reader, send(people.reader, PAPER, f"{PAPER}/{path}", **data)).text

    for path, data, shown in (
        ("vote", {"value": 1}, "Like <b>1</b>"),
        ("vote", {"value": -1}, "Dislike <b>1</b>"),
        ("reaction", {"show": "unclear"}, "unclear <b>1</b>"),
        ("save", {"on": True}, "Saved <b>1</b>"),
    ):
        pressed = press(path, **data).partition(shown)[0].rpartition("<button")[2]
        assert 'aria-pressed="true"' in pressed
    assert f'href="{PAPER}"' in page(people.reader, "/collections")
    for path, data, shown in (
        ("vote", {"value": 0}, "Dislike <b>0</b>"),
        ("reaction", {"withdraw": "unclear"}, "unclear</button>"),
        ("save", {"on": False}, "Save <b>0</b>"),
    ):
        assert shown in press(path, **data)
    assert f'href="{PAPER}"' not in page(people.reader, "/collections")
    post(people.reader, f"{PAPER}/vote", 422, value=2)
    post(people.reader, f"{PAPER}/reaction", 422, show="boring")
    post(people.reader, "/papers/none/vote", 404, value=1)


def test_a_review_is_written_shown_edited_and_compared(people):
    post(people.reader, f"{PAPER}/review", **REVIEW)
    text = page(people.visitor, f"{PAPER}/reviews")
    assert f'href="{PAPER}#table-1"' in text
    assert '<span class="math">x^2</span>' in text
    form = page(people.reader, f"{PAPER}/review")
    assert 'name="revision" value="1"' in form
    post(people.reader, f"{PAPER}/review", **REVIEW | {"concerns": "Depth.", "revision": 1})
    number = review_of(people.reader)
    history = page(people.visitor, f"/reviews/{number}/history")
    assert "<del>Width</del><ins>Depth</ins>." in history
    page(people.visitor, f"/reviews/{number}")
    page(people.visitor, f"/reviews/{number}/history?before=7", expected=404)
    post(people.reader, f"/reviews/{number}/delete")
    page(people.curator, f"/reviews/{number}", expected=404)
    assert "deleted" in page(people.reader, f"/reviews/{number}")
    done = follow(people.reader, send(people.reader, f"{PAPER}/review"))  # what stood there
    assert "Depth." in done.text
    assert 'name="revision" value="3"' in page(people.reader, f"{PAPER}/review")


def test_a_second_review_is_refused_and_given_back(people):
    post(people.reader, f"{PAPER}/review", **REVIEW)
    refused = post(people.reader, f"{PAPER}/review", 409, summary="My second thought")
    assert "My second thought</textarea>" in refused.text
    assert 'name="revision" value="1"' in refused.text


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_conflict_gives_both_texts_back(people, headers):
    post(people.reader, f"{PAPER}/review", **REVIEW)
    post(people.reader, f"{PAPER}/review", **REVIEW | {"concerns": "Second.", "revision": 1})
    late = REVIEW | {"concerns": "Third <b>.", "revision": 1}
    answer = people.reader.client.post(f"{PAPER}/review", data=late, headers=headers)
    assert answer.status_code == 409
    assert "Third &lt;b&gt;." in answer.text
    assert "Second." in answer.text
    assert 'name="revision" value="2"' in answer.text
    assert (answer.headers.get("HX-Retarget") == "#review-form") == bool(headers)


@pytest.mark.parametrize(
    "data", [{"summary": ""}, {"summary": "x" * 20_001}, {"conflict": "x" * 2_001}]
)
def test_a_refused_review_comes_back_with_its_text(people, data):
    answer = people.reader.client.post(
        f"{PAPER}/review", data={"summary": "S", "strengths": "kept words"} | data
    )
    assert answer.status_code in (413, 422)
    assert "kept words" in answer.text
    assert violations(answer.text) == []


def test_a_refused_comment_comes_back_with_its_text(people):
    answer = people.reader.client.post(f"{PAPER}/comments", data={"body": "words " * 3_000})
    assert answer.status_code == 413
    assert "words words" in answer.text
    post(people.reader, f"{PAPER}/comments", 422, body="  ")
    post(people.reader, f"{PAPER}/comments", 422, body="x", kind="rant")


def test_comments_are_answered_edited_and_deleted(people):
    root = comment(people.reader, "First, see #theorem-1", kind="question")
    answer = comment(people.other, "Second", parent_id=root)
    text = page(people.visitor, f"{PAPER}/discussion")
    assert text.index("First, see") < text.index("Second")
    page(people.reader, f"/comments/{root}/answer")
    page(people.reader, f"/comments/{root}/edit")
    post(people.reader, f"/comments/{root}/edit", body="First, see again", revision=1)
    assert "<ins>again</ins>" in page(people.visitor, f"/comments/{root}/history")
    stale = post(people.reader, f"/comments/{root}/edit", 409, body="Too late", revision=1)
    assert "Too late" in stale.text
    assert "First, see again" in stale.text
    post(people.reader, f"/comments/{root}/delete")
    text = page(people.other, f"{PAPER}/discussion")
    assert "First" not in text
    assert "Deleted by its author." in text
    page(people.other, f"/comments/{root}", expected=404)
    assert f"/comments/{root}" in page(people.visitor, f"/comments/{answer}")


def test_parts_for_htmx_name_where_they_go(people):
    client = people.reader.client
    first = client.post(f"{PAPER}/comments", data={"body": "One"}, headers=HTMX)
    assert first.headers["HX-Retarget"] == "#discussion"
    number = number_in(first.text, 'id="comment-')
    data = {"body": "Two", "parent_id": number}
    second = client.post(f"{PAPER}/comments", data=data, headers=HTMX)
    assert second.headers["HX-Retarget"] == f"#answers-{number}"
    assert f'id="slot-{number}" hx-swap-oob' in second.text
    data = {"body": "One!", "revision": 1}
    edited = client.post(f"/comments/{number}/edit", data=data, headers=HTMX)
    assert edited.headers["HX-Retarget"] == f"#comment-{number}"
    assert "One!" in edited.text
    gone = client.post(f"/comments/{number}/delete", headers=HTMX)
    assert "nobody else sees it" in gone.text
    for part in (first, second, edited, gone):
        assert "<html" not in part.text
    form = client.get(f"/comments/{number + 1}/edit", headers=HTMX)
    assert "<html" not in form.text


def test_deep_threads_lead_on(people):
    number = 0
    for _ in range(DEPTH + 3):
        number = comment(people.reader, parent_id=number)
    assert "2 more replies" in page(people.visitor, f"{PAPER}/discussion")


def test_filters_by_kind_and_claim(people):
    comment(people.reader, "About #table-1", kind="caveat")
    comment(people.reader, "Something else")
    assert "Something else" not in page(people.visitor, f"{PAPER}/discussion?kind=caveat")
    assert "Something else" not in page(people.visitor, f"{PAPER}/discussion?claim=table-1")
    assert "No comments of this kind" in page(people.visitor, f"{PAPER}/discussion?kind=question")
    text = page(people.visitor, f"{PAPER}/discussion?kind=caveat")
    assert set(re.findall(r'class="badge kind kind--\w+">(\w+)<', text)) == {"caveat"}
    page(people.visitor, f"{PAPER}/discussion?kind=rant", expected=422)


def test_hidden_words_never_reach_others(people):
    number = comment(people.reader, f"{SECRET} #table-1")
    comment(people.other, "an answer", parent_id=number)
    post(people.reader, f"{PAPER}/review", summary=SECRET)
    review = review_of(people.reader)
    hide(people, "comment", number)
    hide(people, "review", review)
    readable = [
        f"{PAPER}/discussion",
        f"{PAPER}/discussion?claim=table-1",
        f"{PAPER}/discussion?kind=note",
        f"{PAPER}/reviews",
        f"/readers/{people.reader.handle}",
        f"/comments/{number + 1}",
        f"/comments/{number + 1}/answer",
        PAPER,
    ]
    closed = [
        f"/{kind}s/{number}{page}"
        for kind, number in (("comment", number), ("review", review))
        for page in ("", "/history", "/flag")
    ]
    closed += [f"/comments/{number}/answer", f"/comments/{number}/edit"]
    for stranger in (people.visitor, people.other):
        for path in readable:
            answer = stranger.client.get(path)
            assert answer.status_code == (
                401 if path.endswith("answer") and stranger.role == "visitor" else 200
            )
            assert SECRET not in answer.text
        for path in closed:
            answer = stranger.client.get(path)
            assert answer.status_code in (401, 404)
            assert SECRET not in answer.text
        found, nothing = (page(stranger, f"/papers?q={word}") for word in (SECRET, "plugh"))
        assert found.count("entry__title") == nothing.count("entry__title") == 0
    for reader in (people.reader, people.curator):
        for path in (f"{PAPER}/discussion", f"{PAPER}/reviews"):
            assert SECRET in page(reader, path)
    assert "be kind" in page(people.reader, f"{PAPER}/discussion")
    assert "be kind" in page(people.reader, f"{PAPER}/reviews")


def test_moderators_decide_and_undo(people):
    number = comment(people.reader, "rude words")
    flag = hide(people, "comment", number)
    assert "Nothing waits" in page(people.curator, "/moderation")
    assert "rude words" in page(people.curator, "/moderation?state=upheld")
    post(people.curator, f"/moderation/{flag}", decision="open")
    assert "rude words" in page(people.visitor, f"{PAPER}/discussion")
    post(people.curator, f"/moderation/{flag}", decision="dismissed")
    assert "rude words" in page(people.curator, "/moderation?state=dismissed")
    page(people.reader, "/moderation", expected=403)
    post(people.reader, f"/moderation/{flag}", 403, decision="upheld")


def test_reports_are_thanked_for(people):
    number = comment(people.reader)
    page(people.other, f"/comments/{number}/flag")
    place = post(people.other, f"/comments/{number}/flag", reason="why").headers["Location"]
    assert "Thank you" in page(people.other, place)
    post(people.other, f"/comments/{number}/flag", 409, reason="again")
    post(people.reader, f"/comments/{number}/flag", 422, reason="mine")


def test_a_collection_from_the_first_paper_to_the_withdrawn_link(people, app, paper):
    other = add_paper(app, "another-paper")
    place = post(people.reader, "/collections", title="Shelf").headers["Location"]
    number = place.rsplit("/", 1)[1]
    for slug in (SLUG, "another-paper"):
        post(people.reader, f"/papers/{slug}/collect", add=number)
    post(people.reader, f"{place}/items/{other}/move", position=0)
    post(people.reader, f"{place}/items/{other}/note", note=f"*{SECRET}*")
    text = page(people.reader, place)
    assert text.index("Another paper") < text.index("A paper to talk about")
    assert f"<em>{SECRET}</em>" in text
    post(people.reader, f"{place}/sharing", visibility="link")
    token = page(people.reader, place).split("/c/")[1].split('"')[0]
    shared = page(people.visitor, f"/c/{token}")
    assert SECRET in shared
    assert "<form" not in shared.split("<main")[1]
    assert token not in page(people.reader, "/collections")
    for stranger in (people.other, people.curator, people.admin):
        page(stranger, place, expected=404)
        post(stranger, f"{place}/items/{other}/note", 404, note="mine")
    post(people.reader, f"{place}/link")
    page(people.visitor, f"/c/{token}", expected=404)
    post(people.reader, f"{place}/items/{other}/remove")
    assert SECRET not in page(people.reader, place)
    post(people.reader, place, title="Renamed", description="$x$")
    assert "Renamed" in page(people.reader, "/collections")
    post(people.reader, f"{place}/delete")
    page(people.reader, place, expected=404)
    assert "Renamed" not in page(people.reader, "/collections")


def test_a_collection_is_exported_in_its_order_to_those_who_may_read_it(people, app):
    other = add_paper(app, "another-paper")
    place = post(people.reader, "/collections", title="Räume & Töne").headers["Location"]
    for slug in (SLUG, "another-paper"):
        post(people.reader, f"/papers/{slug}/collect", add=place.rsplit("/", 1)[1])
    post(people.reader, f"{place}/items/{other}/move", position=0)
    for stranger, status in ((people.visitor, 401), (people.other, 404), (people.admin, 404)):
        page(stranger, f"{place}/export?format=bibtex", status)
    post(people.reader, f"{place}/sharing", visibility="link")
    token = page(people.reader, place).split("/c/")[1].split('"')[0]
    shared = f"/c/{token}/export"
    for person, path in ((people.reader, f"{place}/export"), (people.visitor, shared)):
        for form in ("json", "bibtex"):
            answer = person.client.get(f"{path}?format={form}")
            assert answer.status_code == 200
            assert "raume-tone." in answer.headers["Content-Disposition"]
            assert answer.text.index("Another paper") < answer.text.index("A paper to talk about")
    post(people.reader, f"{place}/sharing", visibility="private")
    page(people.visitor, shared, 404)


def test_the_preview_is_what_the_page_would_show(people):
    data = {"text": "**bold** #table-1 <script>alert(1)</script>", "paper": SLUG}
    answer = people.reader.client.post("/preview", data=data)
    assert f'<strong>bold</strong> <a href="{PAPER}#table-1"' in answer.text
    assert "<script" not in answer.text
    del people.other.client.headers["X-CSRF-Token"]
    assert people.other.client.post("/preview", data=data).status_code == 403


def test_visitors_see_no_forms(people):
    comment(people.reader)
    post(people.reader, f"{PAPER}/review", **REVIEW)
    for path in (f"{PAPER}/discussion", f"{PAPER}/reviews"):
        assert "<form" not in page(people.visitor, path).split("<main")[1]
    for path in (f"{PAPER}/review", "/collections", "/moderation"):
        page(people.visitor, path, expected=401)


def test_writing_has_a_pace(app, people):
    app.state.settings = dataclasses.replace(
        app.state.settings, writing_rate=Rate(2, 60), preview_rate=Rate(1, 60)
    )
    comment(people.reader)
    post(people.reader, f"{PAPER}/review", **REVIEW)
    refused = post(people.reader, f"{PAPER}/comments", 429, body="One too many.")
    assert "Retry-After" in refused.headers
    comment(people.other)
    assert people.reader.client.post("/preview", data={"text": "x"}).status_code == 200
    assert people.reader.client.post("/preview", data={"text": "x"}).status_code == 429


def test_a_reader_has_a_page(people):
    comment(people.reader, kind="replication")
    text = page(people.visitor, f"/readers/{people.reader.handle}")
    assert "replication" in text
    page(people.visitor, "/readers/nobody-at-all", expected=404)
