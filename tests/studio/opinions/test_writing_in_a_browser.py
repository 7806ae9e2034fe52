"""Writing in a real browser: drafts survive, previews follow, edits meet, shelves are ordered."""

from __future__ import annotations

import pytest

from tests.studio.support.browsers import (
    DESK,
    PHONE,
    held_back,
    scrolls_sideways,
    wait_for_held,
)
from tests.studio.support.people import Person
from tests.studio.support.worlds import listed, shelved

WORDS = "half a thought, $x^2$"


@pytest.fixture(scope="module")
def address(live_server):
    """The page of a paper."""
    with live_server.client() as client:
        return listed(client.get("/papers"))[0]


@pytest.fixture
def writer(live_people) -> Person:
    """Somebody whose opinions nobody else's test has seen."""
    return live_people.new()


@pytest.fixture
def page(visit, writer):
    """Her window."""
    return visit.page(writer)


def box(page, name):
    return page.get_by_role("textbox", name=name)


def test_a_draft_survives_until_it_is_sent(page, address, visit):
    from playwright.sync_api import expect

    page.goto(address)
    box(page, "Your comment").fill(WORDS)
    page.get_by_label("caveat").check()
    page.reload()
    expect(box(page, "Your comment")).to_have_value(WORDS)
    expect(page.get_by_label("caveat")).to_be_checked()
    page.get_by_role("button", name="Preview your comment").click()
    page.locator(".editor__preview .katex").first.wait_for()
    box(page, "Your comment").press_sequentially(" and **more**")
    expect(page.locator(".editor__preview strong").first).to_have_text("more")
    with visit.losing(page, "**/comments"):
        page.get_by_role("button", name="Comment", exact=True).click()
        page.get_by_text("The connection was lost").wait_for()
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.locator(".comment").first).to_contain_text("half a thought")
    expect(box(page, "Your comment")).to_have_value("")
    page.reload()
    expect(box(page, "Your comment")).to_have_value("")


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_asking_before_deleting_moves_nothing(visit, writer, address, size):
    from playwright.sync_api import expect

    page = visit.page(writer, size=size)
    page.goto(address)
    box(page, "Your comment").fill(f"{writer.handle} thinks: {WORDS}")
    page.get_by_role("button", name="Comment", exact=True).click()
    mine = page.locator("article.comment", has_text=f"{writer.handle} thinks")  # and no older one
    expect(box(page, "Your comment")).to_have_value("")
    places = [mine.get_by_role("link", name="Edit"), mine.locator("summary"), mine]
    mine.evaluate("comment => comment.scrollIntoView({block: 'center'})")
    before = [place.bounding_box() for place in places]
    mine.locator("summary").click()
    sure = mine.get_by_role("button", name="Yes, delete it")
    expect(sure).to_be_in_viewport()
    assert [place.bounding_box() for place in places] == before
    assert not scrolls_sideways(page)
    sure.click()
    expect(mine).to_contain_text("You have deleted this")


@pytest.mark.slow
def test_a_formula_nobody_can_draw_is_shown_as_text_and_the_next_one_drawn(page, address):
    from playwright.sync_api import expect

    page.goto(address)
    box(page, "Your comment").fill(f"${'{' * 4500}x{'}' * 4500}$ and $y^2$")
    page.get_by_role("button", name="Preview your comment").click()
    preview = page.locator(".editor__preview")
    expect(preview.locator(".katex")).to_have_count(1)
    expect(preview.locator(".math").first).to_have_text("{" * 4500 + "x" + "}" * 4500)


@pytest.mark.slow
def test_a_draft_is_discarded_when_asked(page, address):
    from playwright.sync_api import expect

    page.goto(f"{address}/review")
    box(page, "Summary").fill(WORDS)
    page.reload()
    expect(box(page, "Summary")).to_have_value(WORDS)
    page.get_by_role("button", name="Discard the draft").click()
    expect(box(page, "Summary")).to_have_value("")
    page.reload()
    expect(box(page, "Summary")).to_have_value("")


@pytest.mark.slow
def test_a_draft_survives_the_end_of_the_session(page, address, visit):
    from playwright.sync_api import expect

    page.goto(f"{address}/review")
    box(page, "Summary").fill(WORDS)
    session = page.context.cookies()
    page.context.clear_cookies()
    page.get_by_role("button", name="Publish the review").click()
    page.get_by_text("reload the page").wait_for()
    visit.expect("403")
    expect(box(page, "Summary")).to_have_value(WORDS)
    page.reload()
    expect(page.get_by_label("Password")).to_be_visible()
    visit.expect("401")
    page.context.add_cookies(session)
    page.goto(f"{address}/review")
    expect(box(page, "Summary")).to_have_value(WORDS)


@pytest.mark.slow
def test_answers_and_edits_stay_in_the_page(page, address):
    from playwright.sync_api import expect

    page.goto(address)
    box(page, "Your comment").fill("A question of taste")
    page.get_by_role("button", name="Comment", exact=True).click()
    comment = page.locator(".comment").first
    expect(comment).to_contain_text("A question of taste")
    comment.get_by_role("link", name="Reply").click()
    expect(box(page, "Your reply")).to_be_focused()
    box(page, "Your reply").fill("And of reason")
    page.locator(".slot").get_by_role("button", name="Reply", exact=True).click()
    expect(page.locator(".threads--answers .comment").first).to_contain_text("And of reason")
    comment.get_by_role("link", name="Edit").click()
    box(page, "Your new version").fill("A matter of taste")
    page.locator(".slot").get_by_role("button", name="Save").click()
    expect(comment).to_contain_text("A matter of taste")
    expect(page.locator(".slot form")).to_have_count(0)
    comment.locator("summary", has_text="Delete").click()
    comment.get_by_role("button", name="Yes, delete it").click()
    expect(comment).to_contain_text("nobody else sees it")


def test_of_two_windows_the_second_is_told_and_loses_nothing(page, address, visit):
    from playwright.sync_api import expect

    page.goto(f"{address}/review")
    box(page, "Summary").fill("First")
    page.get_by_role("button", name="Publish the review").click()
    page.wait_for_url("**#reviews")
    other = page.context.new_page()
    for window in (page, other):
        window.goto(f"{address}/review")
    for window, text in ((other, "Second"), (page, "Third")):
        box(window, "Summary").fill(text)
        window.get_by_role("button", name="Save the new version").click()
        if window is other:
            other.wait_for_url("**#reviews")  # before the second is sent
    page.get_by_text("changed meanwhile").wait_for()
    visit.expect("409")
    expect(page.locator(".standing")).to_contain_text("Second")
    expect(box(page, "Summary")).to_have_value("Third")
    page.get_by_role("button", name="Save the new version").click()
    page.wait_for_url("**#reviews")
    expect(page.locator("#reviews .review").first).to_contain_text("Third")


@pytest.mark.slow
def test_a_shelf_is_ordered_by_dragging_and_by_keys(page, address, writer):
    from playwright.sync_api import expect

    papers = [address.rpartition("/")[2] for address in listed(writer.client.get("/papers"))]
    number = shelved(writer, "Shelf", papers[:2])
    page.goto(f"/collections/{number}")
    titles = page.locator(".item h3")
    first, second = titles.all_inner_texts()
    page.locator(".item .grip").first.drag_to(page.locator(".item").nth(1))
    expect(titles).to_have_text([second, first])
    up = page.get_by_role("button", name=f"Move {first} up")
    up.focus()
    page.keyboard.press("Enter")
    expect(titles).to_have_text([first, second])
    expect(up).to_be_focused()
    page.reload()
    expect(titles).to_have_text([first, second])


def test_a_preview_stands_beside_the_text_where_there_is_room(page, address):
    from playwright.sync_api import expect

    from tests.studio.support.browsers import PHONE

    page.goto(f"{address}/review")
    box(page, "Summary").press_sequentially("so $x^2$")
    preview = page.locator("#review-summary-preview")
    expect(preview.locator(".katex")).to_have_count(1)
    text, beside = box(page, "Summary").bounding_box(), preview.bounding_box()
    assert beside["x"] >= text["x"] + text["width"]
    page.get_by_role("button", name="Preview summary").click()
    box(page, "Summary").press_sequentially("!")
    expect(preview).to_be_hidden()
    page.set_viewport_size(PHONE)
    box(page, "Strengths").press_sequentially("a")
    expect(page.locator("#review-strengths-preview")).to_be_hidden()


def test_a_preview_that_comes_late_does_not_replace_a_later_one(page, address):
    from playwright.sync_api import expect

    page.goto(f"{address}/review")
    held = held_back(page, "**/preview")
    box(page, "Summary").fill("first")
    wait_for_held(page, held)
    box(page, "Summary").fill("second")
    wait_for_held(page, held, 2)
    held[1].continue_()
    preview = page.locator("#review-summary-preview")
    expect(preview).to_have_text("second")
    assert held[0].request.failure == "net::ERR_ABORTED"
    expect(preview).to_have_text("second")


def test_what_is_written_after_sending_is_kept_as_a_draft(page, address):
    from playwright.sync_api import expect

    page.goto(address)
    held = held_back(page, "**/comments")
    box(page, "Your comment").fill("Sent.")
    page.get_by_role("button", name="Comment", exact=True).click()
    wait_for_held(page, held)
    box(page, "Your comment").fill("Sent. And an afterthought.")
    held[0].continue_()
    expect(page.locator(".comment .prose").first).to_have_text("Sent.")
    expect(box(page, "Your comment")).to_have_value("Sent. And an afterthought.")
    page.get_by_role("button", name="Discard the draft").click()
    expect(box(page, "Your comment")).to_have_value("")
