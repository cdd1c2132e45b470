"""Every page in a headless Chromium: it fits, works by keyboard, prints whole, asks for nothing and is accessible."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from nightly import some
from sites import NAMES
from windows import opened, unfold

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.xdist_group("browser")
each_page = pytest.mark.parametrize("name", some(NAMES, few=6))
each_kind = pytest.mark.parametrize("name", some(["team", "error", "history", "audit"], few=2))
"""What stands on the other pages stands on these too, by other names."""

WIDTHS = (390, 768, 961, 1280, 1600)
PAPER = 703
"""The width of A4 within the margins that pages ask for, in CSS pixels."""


@each_page
def test_no_page_is_wider_than_its_window(browser: Browser, pages: Mapping[str, Path], name: str) -> None:
    with opened(browser, pages[name]) as page:
        unfold(page)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(_BEYOND, width) == []
            assert page.evaluate(_SIDEWAYS) == []
            assert page.evaluate(_TOUCHING) == []


_BEYOND = """width => [...document.querySelectorAll('body *')]
  .filter(one => !one.closest('.scroll') && !one.closest('svg') && one.checkVisibility()
    && one.getBoundingClientRect().right > width + 1)
  .map(one => one.outerHTML.slice(0, 120))"""


@each_kind
def test_axe_finds_nothing_wrong_in_light_and_dark(
    browser: Browser, axe: str, pages: Mapping[str, Path], name: str
) -> None:
    with opened(browser, pages[name], bypass_csp=True) as page:
        unfold(page)
        page.evaluate(axe)
        light = page.evaluate(_GROUND)
        found = _violations(page)
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(_GROUND) != light
        found += _violations(page, "color-contrast")  # nothing else that is looked at changes with the scheme
    assert found == []


_GROUND = "getComputedStyle(document.body).backgroundColor"


def _violations(page: Page, *rules: str) -> list[str]:
    """What axe finds, of any impact; all rules, or those that are named."""
    options: dict[str, Any] = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [f"{one['impact']} {one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"][:3]]


@each_kind
def test_the_keyboard_reaches_everything_the_skip_link_first(
    browser: Browser, pages: Mapping[str, Path], name: str
) -> None:
    with opened(browser, pages[name]) as page:
        page.set_viewport_size({"width": 800, "height": 300})
        page.evaluate(_WATCH)
        page.keyboard.press("Tab")
        skip = page.locator(":focus")
        assert skip.get_attribute("class") == "skip"
        box = skip.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.evaluate("document.querySelector('.skip').focus(); stops.length = 1")
        wanted = page.evaluate("everything().length")
        for _ in range(wanted - 1):
            page.keyboard.press("Tab")
        assert page.evaluate("stops.map(stop => everything().indexOf(stop.one))") == list(range(wanted))
        assert page.evaluate("stops.filter(stop => !stop.outlined).map(stop => stop.one.outerHTML.slice(0, 120))") == []


_WATCH = """() => {
  window.everything = () => [...document.querySelectorAll("a[href], button, select, summary, [tabindex='0']")]
    .filter(one => one.checkVisibility({contentVisibilityAuto: true}));
  window.stops = [];
  document.addEventListener("focusin", event => {
    const style = getComputedStyle(event.target);
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    stops.push({one: event.target, outlined});
  });
}"""


@each_kind
def test_links_and_folds_answer_to_enter(browser: Browser, pages: Mapping[str, Path], name: str) -> None:
    with opened(browser, pages[name]) as page:
        for link in page.query_selector_all("nav a"):
            link.focus()
            page.keyboard.press("Enter")
            target = page.locator(f"[id='{(link.get_attribute('href') or '')[1:]}']")
            assert target.evaluate("one => one.getBoundingClientRect().top < innerHeight")
        for fold in page.query_selector_all("main section > details > summary")[:5]:
            before = fold.evaluate("one => one.parentElement.open")
            fold.focus()
            page.keyboard.press("Enter")
            assert fold.evaluate("one => one.parentElement.open") != before


@each_kind
def test_on_paper_everything_is_shown_and_nothing_is_cut(
    browser: Browser, pages: Mapping[str, Path], name: str
) -> None:
    with opened(browser, pages[name]) as page:
        page.set_viewport_size({"width": PAPER, "height": 1000})
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert page.evaluate(_FOLDED) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= PAPER
        assert page.evaluate(_CUT) == []
        assert page.pdf(format="A4").startswith(b"%PDF")


_SIDEWAYS = """() => [...document.querySelectorAll('.scroll:has(> .stacks)')]
  .filter(one => one.scrollWidth > one.clientWidth + 1)
  .map(one => `${one.scrollWidth} in ${one.clientWidth}: ${one.outerHTML.slice(0, 160)}`)"""
"""Tables of groups that would have to be scrolled."""
_TOUCHING = """() => [...document.querySelectorAll('svg.axis')].filter(axis => axis.checkVisibility()).flatMap(axis => {
  const boxes = [...axis.querySelectorAll('text')].map(text => text.getBoundingClientRect()).filter(box => box.width);
  boxes.sort((a, b) => a.left - b.left);
  return boxes.slice(1).filter((box, at) => box.left < boxes[at].right + 2).map(() => axis.textContent);
})"""
"""Axes on which two labels touch."""
_FOLDED = """() => [...document.querySelectorAll('details > *:not(summary, .export)')]
  .filter(one => !one.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true})
    || one.getBoundingClientRect().height === 0)
  .map(one => one.outerHTML.slice(0, 120))"""
_CUT = """() => [...document.querySelectorAll('body *')]
  .filter(one => !one.closest('svg') && !one.matches('.sr') && one.scrollWidth > one.clientWidth + 1
    && one.clientWidth > 0 && (getComputedStyle(one).overflowX !== 'visible' || one.matches('.scroll')))
  .map(one => `${one.scrollWidth} in ${one.clientWidth}: ${one.outerHTML.slice(0, 160)}`)"""


def test_the_filter_of_a_report_leaves_the_chosen_check_and_group(browser: Browser, pages: Mapping[str, Path]) -> None:
    with opened(browser, pages["team"]) as page:
        articles = page.locator("article.check")
        everything = articles.count()
        page.select_option("#by-check", "no-intersectional-regression")
        left = [one for one in articles.all() if one.is_visible()]
        assert 0 < len(left) < everything
        assert all("no-intersectional-regression doctor" in one.locator("h3").inner_text() for one in left)
        page.select_option("#by-group", "dark × female")
        rows = [row.inner_text().split("\t")[0] for row in page.locator("article tr.g").all() if row.is_visible()]
        assert rows
        assert all("dark × female" in row for row in rows)
        page.select_option("#by-check", "all")
        page.select_option("#by-group", "all")
        assert all(one.is_visible() for one in articles.all())
