"""From a mention to the bell, from a pasted record to a page: what brings readers back."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.studio.support.browsers import Visit
from tests.studio.support.people import People
from tests.studio.support.worlds import done

FANG = "/papers/fang-2022-attention-enables-zero-approximation-error"


def test_a_follower_is_told_reads_it_and_the_number_goes(visit: Visit, live_people: People) -> None:
    follower, writer = live_people.new(), live_people.new()
    page = visit.page(follower)
    page.goto(FANG)
    page.get_by_role("link", name="Follow", exact=True).click()
    page.get_by_label("The whole paper").check()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="Attention Enables Zero").wait_for()
    body = f"@{follower.handle} <b>look</b> at #table-1"
    done(writer, FANG, f"{FANG}/comments", body=body)
    page.reload()
    menu = page.locator("details.menu > summary").first
    expect(menu.locator(".count")).to_contain_text("1")
    menu.click()
    page.get_by_role("link", name="Notices 1").click()
    news = page.locator(".news")
    expect(news).to_contain_text(f"{writer.handle.capitalize()} mentioned you on")
    expect(news).to_have_class("news news--new")
    expect(page.get_by_role("link", name="Change")).to_have_count(1)
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator(".site-header .count")).to_have_count(0)
    news.get_by_role("link").click()
    page.locator(".comment", has_text="look").first.wait_for()


def test_a_reader_brings_a_paper_and_a_curator_takes_it(visit: Visit, live_people: People) -> None:
    reader, curator = live_people.new(), live_people.new("curator")
    title = f"On the law of {reader.handle}"
    page = visit.page(reader)
    page.goto("/papers")
    page.get_by_role("link", name="Bring a paper").click()
    what = page.get_by_label("arXiv id, DOI, address or BibTeX")
    what.fill("2202.12166")
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("link", name="Attention Enables Zero").wait_for()
    what.fill("2999.12345")
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("fill in the rest by hand").wait_for()
    assert page.get_by_label("arXiv id").input_value() == "2999.12345"
    page.get_by_role("button", name="Propose").click()
    expect(page.get_by_role("alert")).to_contain_text("title: is empty")
    visit.expect("status of 422")
    page.get_by_label("Title").fill(title)
    page.get_by_role("button", name="Propose").click()
    page.get_by_role("heading", name=title).wait_for()

    desk = visit.page(curator)
    desk.goto("/proposals")
    desk.get_by_role("button", name=f"Accept {title}").click()
    expect(desk.get_by_role("button", name=f"Accept {title}")).to_have_count(0)
    page.goto("/notices")
    page.locator(".news", has_text="accepted").get_by_role("link", name=title).click()
    page.get_by_role("link", name="arXiv:2999.12345").wait_for()
