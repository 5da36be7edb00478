"""Every page, as it is shown: nothing that axe-core finds, in light and dark; nothing beside a narrow window; nothing
that the browser complains of."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser import axe
from tests.browser.demo import PASSWORD
from tests.browser.pages import Page, pages
from tests.browser.person import NARROW, Person
from tests.browser.site import Site

_OVER = """
const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
if (over <= 0) return [];
return [...document.body.querySelectorAll("*")]
  .filter((node) => node.checkVisibility() && node.getBoundingClientRect().right > innerWidth + 1)
  .slice(0, 5).map((node) => `${over} px too wide: ${node.outerHTML.slice(0, 160)}`);
"""
_SHORTEN = """
document.addEventListener("htmx:beforeRequest", (event) => event.preventDefault(), true);
const alike = "tbody tr:nth-child(n+6), article:nth-of-type(n+4), .api-index li:nth-child(n+4), svg a:nth-of-type(n+6)";
for (const one of document.querySelectorAll(alike)) one.remove();
"""
"""Rows are alike: the first few tell of all, and a page that stays as it is of what comes next."""
_MOVES = """
return document.getAnimations().filter((one) => one.effect.getComputedTiming().duration > 10).map((one) => {
  const node = one.effect.target;
  return `${one.animationName || one.transitionProperty}: ${node.outerHTML.slice(0, 160)}`;
});
"""
_REACHED = """
const html = (node) => node.outerHTML.slice(0, 160);
return [
  ...window.stops.filter((one) => one.isConnected && !window.tour.has(one)).map((one) => `not reached: ${html(one)}`),
  ...[...window.tour].filter(([, isMarked]) => !isMarked).map(([one]) => `reached, but nothing shows it: ${html(one)}`),
];
"""
DJANGOS = "label-title-only"
"""The search of the admin has a picture as its label, with an alternative text, which this rule does not see."""
LONGEST = "api-docs"
"""Two hundred articles of one make, made by one template."""
STEP, MOST_STOPS = 50, 2000
TOUR = (Path(__file__).with_name("tour.js")).read_text(encoding="utf-8")


def unreached(person: Person) -> list[str]:
    """What Tab does not lead to, or leads to without a mark."""
    person.driver.execute_script(TOUR)
    for _ in range(MOST_STOPS // STEP):
        # A field of a date has several stops, and so has a region that scrolls: it takes as many as it takes.
        person.press(*[Keys.TAB] * STEP)
        if not (left := person.driver.execute_script(_REACHED)):
            break
    return left


def barriers(person: Person) -> list[str]:
    """What of the page that is open somebody would stumble over; it is wide and light afterwards."""
    found = {"light": axe.violations(person)}
    person.driver.execute_script(_SHORTEN)
    found["moves"] = person.driver.execute_script(_MOVES)
    person.look(is_dark=True)
    found["dark"] = axe.violations(person, "color-contrast")
    person.look(width=NARROW)
    found["narrow"] = person.driver.execute_script(_OVER)
    found["narrow, axe"] = axe.violations(person, "scrollable-region-focusable", "target-size")
    person.look()
    return [f"{how}: {line}" for how, lines in found.items() for line in lines]


@pytest.mark.parametrize("page", pages(), ids=str)
def test_a_page_shuts_nobody_out(site: Site, person: Person, page: Page):
    if page.who:
        person.sign_in(page.who)
    assert site.demo is not None
    person.goto(page.path(site.demo.objects))
    assert person.driver.title, "a page has a title; what is none stands with the reason in pages.py"
    if page.name == LONGEST:
        person.driver.execute_script(_SHORTEN)
    found = barriers(person)
    if page.name.startswith("admin:"):
        found = [line for line in found if DJANGOS not in line]
    else:
        found += unreached(person)
    assert not found, "\n".join(found)


def test_nor_does_what_is_said_in_the_place_of_a_page(site: Site, person: Person):
    assert site.demo is not None
    person.expected = [r"Failed to load resource: .* status of 40[034]"]
    found = []
    for who, path in (("ada", "/nothing/here"), ("nobody", "/now"), ("ada", "/jobs/no:such")):
        person.sign_in(who)
        person.goto(path)
        found += [f"{path}: {line}" for line in barriers(person)]
    # A form of a page that is older than the session.
    person.sign_out()
    person.goto("/sign-in")
    person.driver.delete_all_cookies()
    person.fill("Name", "ada")
    person.fill("Password", "whatever it is")
    person.click("button", "Sign in")
    person.wait(lambda: not person.all("field", "Password"), "the refusal")
    found += [f"csrf: {line}" for line in barriers(person)]
    for name, html in site.demo.error_pages.items():
        person.goto("/sign-in")
        person.driver.execute_script("document.open(); document.write(arguments[0]); document.close();", html)
        person.wait(lambda: person.driver.execute_script("return document.readyState") == "complete", name)
        found += [f"{name}: {line}" for line in barriers(person)]
    # The second step of signing in.
    person.fill_in_sign_in("tess", PASSWORD)
    person.find("field", "Code")
    found += [f"code: {line}" for line in barriers(person)]
    assert not found, "\n".join(found)
