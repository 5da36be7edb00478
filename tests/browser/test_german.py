"""German words are longer: no page is wider than a narrow window in German either, no word longer than its place."""

from __future__ import annotations

from django.conf import settings

from tests.browser.pages import pages
from tests.browser.person import NARROW, Person
from tests.browser.site import Site

TOO_WIDE = """
const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const cramped = [...document.querySelectorAll(".facts dt, main button, main .button")]
  .filter((node) => node.checkVisibility() && node.scrollWidth > node.clientWidth + 1)
  .slice(0, 5).map((node) => `reaches out: ${node.outerHTML.slice(0, 160)}`);
return over <= 0 ? cramped : [...document.body.querySelectorAll("*")]
  .filter((node) => node.checkVisibility() && node.getBoundingClientRect().right > innerWidth + 1)
  .slice(0, 5).map((node) => `${over} px too wide: ${node.outerHTML.slice(0, 160)}`);
"""


def test_no_page_is_wider_than_a_narrow_window_in_german(site: Site, person: Person):
    assert site.demo is not None
    person.sign_in("ada")
    person.goto("/jobs")  # a cookie is set on a page of its own host, and the test before may have left none
    person.driver.add_cookie({"name": settings.LANGUAGE_COOKIE_NAME, "value": "de"})
    person.look(width=NARROW)
    wide = {}
    try:
        for page in pages():
            if page.who == "ada":
                person.goto(page.path(site.demo.objects))
                assert person.driver.execute_script("return document.documentElement.lang") == "de", page
                if found := person.driver.execute_script(TOO_WIDE):
                    wide[str(page)] = found
    finally:
        person.driver.delete_cookie(settings.LANGUAGE_COOKIE_NAME)
        person.look()
    assert wide == {}
