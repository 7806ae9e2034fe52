"""Saying what one thinks of a paper: like, react, save, review, discuss, by mouse and keyboard."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.studio.support.browsers import PHONE, Visit, tab_to
from tests.studio.support.people import People
from tests.studio.support.worlds import commented, three_papers


@pytest.fixture
def paper(live_people: People) -> str:
    """The address of a paper nobody else has said anything about."""
    return f"/papers/{three_papers(live_people.database)[2].slug}"


def test_like_react_and_save_are_kept(reader_page: Any, paper: str) -> None:
    page = reader_page
    page.goto(paper)
    for name in ("Like", "useful", "Save"):
        button = page.get_by_role("button", name=name).first
        assert button.get_attribute("aria-pressed") == "false"
        button.click()
        page.locator(f"[aria-pressed=true]:has-text('{name}')").wait_for()
    page.reload()
    expect(page.locator("#opinions [aria-pressed=true]")).to_have_count(3)
    page.get_by_role("button", name="Dislike").click()
    page.locator("#vote-dislike[aria-pressed=true]").wait_for()
    assert page.locator("#vote-like").get_attribute("aria-pressed") == "false"
    page.goto("/collections")
    saved = page.locator("section", has_text="Saved papers")
    expect(saved.locator(f"a[href='{paper}']")).to_have_count(1)


@pytest.mark.slow
def test_a_visitor_sees_counts_and_is_asked_to_log_in(page: Any, paper: str) -> None:
    page.goto(paper)
    assert page.locator("#opinions button").count() == 0
    page.get_by_role("link", name="Log in to say").click()
    page.wait_for_url(lambda url: "/login?next=" in url)


def test_write_a_review_edit_it_and_see_its_history(reader_page: Any, paper: str) -> None:
    page = reader_page
    page.goto(f"{paper}/review")
    page.get_by_label("Summary").fill("It shows that $x^2$ is *possible*.")
    page.get_by_label("Strengths").fill("Short.")
    page.get_by_label("4 ·").check()
    page.get_by_role("button", name="Publish").click()
    page.wait_for_url(lambda url: not url.endswith("/review"))
    review = page.locator("article.review", has_text="yours")
    review.locator(".katex").first.wait_for()
    expect(review.locator("em", has_text="possible")).to_have_count(1)
    review.get_by_role("link", name="Edit").click()
    assert page.get_by_label("Summary").input_value() == "It shows that $x^2$ is *possible*."
    page.get_by_label("Strengths").fill("Short and clear.")
    page.get_by_role("button", name="Save the new version").click()
    page.get_by_role("link", name="edited, version 2").click()
    expect(page.locator("ins")).to_contain_text("clear")


def test_comment_answer_edit_delete_and_mention(visit: Visit, live_people: People) -> None:
    slug = three_papers(live_people.database)[0].slug
    asker, helper = live_people.new(), live_people.new()
    page = visit.page(asker)
    page.goto(f"/papers/{slug}")
    page.get_by_label("Your comment").fill(f"{asker.handle} asks: is #table-1 in $\\mathbb{{R}}$?")
    page.get_by_label("question").check()
    page.get_by_role("button", name="Comment", exact=True).click()
    mine = page.locator("article.comment", has_text=f"{asker.handle} asks")
    mine.wait_for()
    assert mine.get_by_role("link", name="#table-1").get_attribute("href").endswith("#table-1")
    expect(mine.locator(".kind--question")).to_have_count(1)
    mine.locator(".katex").first.wait_for()
    number = str(mine.get_attribute("id")).removeprefix("comment-")

    other = visit.page(helper)
    other.goto(f"/comments/{number}")
    other.locator(f"#comment-{number}").get_by_role("link", name="Reply").click()
    other.get_by_label("Your reply").fill(f"{helper.handle} answers @{asker.handle}: yes.")
    other.get_by_role("button", name="Reply", exact=True).click()
    answer = other.locator("article.comment", has_text=f"{helper.handle} answers")
    answer.wait_for()
    expect(answer.get_by_role("link", name=f"@{asker.handle}")).to_have_count(1)

    page.goto(f"/comments/{number}")
    mine = page.locator(f"#comment-{number}")
    mine.get_by_role("link", name="Edit").click()
    page.get_by_label("Your new version").fill(f"{asker.handle} asks again.")
    page.get_by_role("button", name="Save").click()
    page.locator(f"#comment-{number}", has_text="asks again").wait_for()
    page.locator(f"#comment-{number}").get_by_role("link", name="edited").click()
    expect(page.locator("del")).not_to_have_count(0)
    page.goto(f"/comments/{number}")
    mine = page.locator(f"#comment-{number}")
    mine.get_by_text("Delete your comment").click()
    mine.get_by_role("button", name="Yes, delete it").click()
    page.get_by_text("You have deleted this").wait_for()
    other.goto(f"/papers/{slug}/discussion")
    assert other.get_by_text("asks again").count() == 0
    expect(other.locator("article.comment", has_text=f"{helper.handle} answers")).to_have_count(1)


@pytest.mark.slow
def test_a_comment_can_be_written_with_the_keyboard_alone(reader_page: Any, paper: str) -> None:
    page = reader_page
    page.goto(f"{paper}/discussion")
    tab_to(page, "document.activeElement.tagName", "TEXTAREA")
    page.keyboard.type("Typed without a mouse.")
    tab_to(page, "document.activeElement.textContent.trim()", "Comment")
    page.keyboard.press("Enter")
    comment = page.locator("article.comment", has_text="Typed without a mouse.")
    expect(comment).to_have_count(1)
    page.reload()
    expect(comment).to_have_count(1)


@pytest.mark.slow
def test_a_preview_shows_what_will_be_shown(reader_page: Any, paper: str) -> None:
    page = reader_page
    page.set_viewport_size(PHONE)  # where there is more room, it opens by itself
    page.goto(f"{paper}/discussion")
    page.get_by_label("Your comment").fill("**bold** $x^2$ <script>alert(1)</script>")
    page.get_by_role("button", name="Preview").click()
    preview = page.locator(".editor__preview").filter(visible=True)
    expect(preview.locator("strong")).to_have_text("bold")
    expect(preview.locator(".katex")).to_have_count(1)
    expect(preview).to_contain_text("<script>alert(1)</script>")
    expect(preview.locator("script")).to_have_count(0)


def test_a_comment_is_marked_as_useful_without_a_reload(
    visit: Visit, live_people: People, paper: str
) -> None:
    author, readers = live_people.new(), [live_people.new(), live_people.new()]
    comments = [commented(author, author.client.get(paper), body=f"Remark {k}.") for k in range(3)]
    mark = f"#useful-comment-{comments[0]}"
    for count, reader in enumerate(readers, 1):
        page = visit.page(reader, size=PHONE)
        page.goto(paper)
        page.evaluate("window.still = true")
        page.locator(mark).click()
        expect(page.locator(mark)).to_have_attribute("aria-pressed", "true")
        expect(page.locator(mark)).to_contain_text(str(count))
        expect(page.locator(mark)).to_be_focused()
        assert page.evaluate("window.still")
        page.reload()
        expect(page.locator(mark)).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Most useful first").last.click()
    expect(page.locator("#discussion .comment").first).to_contain_text("Remark 0.")
    page.locator(mark).press("Enter")
    expect(page.locator(mark)).to_have_attribute("aria-pressed", "false")
