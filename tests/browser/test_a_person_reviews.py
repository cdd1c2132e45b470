"""A person reviews a build in a headless Chromium, by keyboard: stops, goes on, finishes, and it is released.

One browser, one build; the tests follow each other as the person's day does.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from drawn import HOSTILE, open_keeper, rows, write_build

from fairgate.builds.review import FinishedBuild, ReviewServer, Session, draw_sample, find_build, read_records, release
from fairgate.builds.review.marks import INSTRUCTIONS
from fairgate.data import open_dataset
from fairgate.reports.standalone_page import render_review

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.xdist_group("browser")
SIZE = 10


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> FinishedBuild:
    """48 images whose captions are hostile."""
    folder = tmp_path_factory.mktemp("build")
    write_build(folder / "people", rows(12, caption=HOSTILE))
    return find_build(str(folder / "people"))


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the marks are kept."""
    return tmp_path_factory.mktemp("reviews")


@contextmanager
def reviewing(
    browser: Browser, build: FinishedBuild, reviews: Path, *, bypass_csp: bool = False, fails: bool = False
) -> Iterator[Page]:
    """The page of `fairgate review`, which says nothing on the console and asks for nothing but its own address.

    The browser itself says when something `fails` to load.
    """
    dataset, sample = build.dataset, draw_sample(build.dataset, SIZE)
    context = browser.new_context(color_scheme="light", bypass_csp=bypass_csp, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(60_000)  # a runner may be busy
    said: list[str] = []
    with (
        open_keeper(dataset, build.records(reviews), sample) as keeper,
        ReviewServer(Session(dataset, sample, keeper), render_review(dataset.manifest, INSTRUCTIONS)) as server,
    ):
        thread = threading.Thread(target=server.serve)
        thread.start()
        page = context.new_page()
        page.on("console", lambda message: said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.on("request", lambda one: None if one.url.startswith(server.url) else said.append(f"request: {one.url}"))
        page.goto(server.url)
        page.wait_for_selector("#begin:visible, #question:visible, #end:visible")
        try:
            yield page
        finally:
            server.stop()
            thread.join()
            context.close()
    unloaded = [one for one in said if one.startswith("console: Failed to load resource")]
    assert bool(unloaded) == fails
    assert said == unloaded


SEEN = "() => document.querySelector('#work').hidden || document.querySelector('#answers button:enabled') !== null"
"""Answers wait for the pictures."""


def press(page: Page, *keys: str) -> None:
    """Keys, each after the page has answered to the one before."""
    for key in keys:
        page.wait_for_function(SEEN)
        before = page.inner_text("#question") + page.inner_text("#count")
        page.keyboard.press(key)
        page.wait_for_function(
            "before => document.querySelector('#question').innerText + document.querySelector('#count').innerText "
            "!== before || document.querySelector('#work').hidden",
            arg=before,
        )


def place(page: Page) -> str:
    return page.inner_text("#place")


def test_a_few_images_are_marked_by_keyboard(browser: Browser, build: FinishedBuild, reviews: Path) -> None:
    first = draw_sample(build.dataset, SIZE).images[0]
    with reviewing(browser, build, reviews) as page:
        assert "without knowing what was asked for" in page.inner_text("#start")
        page.keyboard.press("Tab")
        page.locator("#begin").press("Enter")
        assert place(page) == "Image 1 of 10, question 1 of 3"
        assert page.inner_text("#words") == "Which tone do you perceive?"
        assert not page.is_visible("#asked")
        assert first.subject not in page.inner_text("main")
        assert page.locator("#pictures img").evaluate("one => one.decode().then(() => one.naturalWidth)") == 24
        press(page, "2", "0")
        shown = page.inner_text("#asked")
        assert first.subject in shown
        assert "<img src=x onerror=alert(1)></script>" in shown
        assert f"{first.recorded['gender']} recorded, cannot tell perceived" in shown
        assert page.locator("#asked img, #asked script").count() == 0
        press(page, "3")
        assert place(page) == "Image 2 of 10, question 1 of 3"
        press(page, "1", "1", "1")
        assert page.inner_text("#count") == "2 of 11 answered"
        (record,) = read_records(build.records(reviews), build.dataset.manifest)
        mark = record.perceived[first.set_id, first.member]
        assert (mark.perceived, mark.blind) == ({"tone": "dark", "gender": None}, True)
        assert record.qualities[first.set_id, first.member].quality == "not_realistic"


def test_it_goes_on_where_it_was_and_mistakes_are_undone(browser: Browser, build: FinishedBuild, reviews: Path) -> None:
    with reviewing(browser, build, reviews) as page:
        assert place(page) == "Image 3 of 10, question 1 of 3"
        press(page, "1")
        press(page, "Backspace")  # the answer that was not sent yet
        assert place(page) == "Image 3 of 10, question 1 of 3"
        press(page, "Backspace")  # what was wrong with image 2
        assert place(page) == "Image 2 of 10, question 3 of 3"
        assert page.inner_text("#count") == "1 of 11 answered"
        press(page, "ArrowLeft")
        assert page.locator("[aria-pressed=true]").inner_text().startswith("3\nNot realistic")
        press(page, "ArrowRight", "5")
        assert place(page) == "Image 3 of 10, question 1 of 3"
        page.locator("#keys").uncheck()
        page.keyboard.press("1")
        assert place(page) == "Image 3 of 10, question 1 of 3"
        page.locator("#answers button").first.click()
        assert place(page) == "Image 3 of 10, question 2 of 3"
        page.reload()  # half an answer is none
        page.wait_for_selector("#question:visible")
        assert place(page) == "Image 3 of 10, question 1 of 3"


def test_the_page_fits_and_axe_finds_nothing_wrong(
    browser: Browser, axe: str, build: FinishedBuild, reviews: Path
) -> None:
    with reviewing(browser, build, reviews, bypass_csp=True) as page:
        page.evaluate(axe)
        found = []
        for way in ((), ("ArrowLeft",)):
            press(page, *way)
            for width in (390, 1280):
                page.set_viewport_size({"width": width, "height": 844})
                assert page.evaluate("document.documentElement.scrollWidth") <= width
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                broken = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
                found += [f"{scheme} {one['id']}: {one['nodes'][0]['html'][:160]}" for one in broken]
        assert found == []
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_server_that_is_gone_is_told_and_the_answer_is_not_lost_in_silence(
    browser: Browser, build: FinishedBuild, tmp_path: Path
) -> None:
    with reviewing(browser, build, tmp_path, fails=True) as page:
        page.click("#begin")
        page.route("**/mark", lambda route: route.abort())
        press(page, "1")
        page.wait_for_function(SEEN)
        page.keyboard.press("1")
        page.wait_for_selector("#trouble:visible")
        assert "start it again with the same command" in page.inner_text("#trouble")
        assert place(page) == "Image 1 of 10, question 2 of 3"
        page.unroute("**/mark")
        page.route("**/picture/1/*", lambda route: route.fulfill(status=409, json={"error": "the picture is gone"}))
        press(page, "1")
        assert not page.is_visible("#trouble")
        press(page, "1")
        page.wait_for_selector("#trouble:visible")
        assert page.inner_text("#trouble") == "the picture is gone"
        assert page.locator("#answers button:enabled").count() == 0


def test_the_rest_is_finished_and_the_figures_and_the_release_follow(
    browser: Browser, build: FinishedBuild, reviews: Path, tmp_path: Path
) -> None:
    with reviewing(browser, build, reviews) as page:
        while not page.is_visible("#end"):
            if place(page).startswith("Set"):
                assert page.locator("#pictures img").count() == 4
            press(page, "1")
        assert page.inner_text("#finished") == "Everything is answered. Thank you."
        page.click("#stop")
        page.wait_for_selector("#stopped:visible")
    done = release(build, None, tmp_path / "datasets", least=SIZE, reviews=reviews)
    assert done.figures is not None
    found = done.figures.rows[0].shares
    assert (done.figures.images, done.figures.sets, found["not realistic"].count) == (10, 1, 1)
    assert (found["unsure"].count, found["cannot discern gender"].count) == (1, 1)
    released = open_dataset("people", tmp_path / "datasets")
    assert released.manifest.lineage == {"review by ada": done.records[0].sha256}
    card = (released.folder / "README.md").read_text(encoding="utf-8")
    assert re.search(r"\| not realistic \| 1 \| 10\.0% \(1\.8 to 40\.4\) \|", card)
    assert "<script>" not in card
