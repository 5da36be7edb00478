"""Times, keys, the palette and refusals, as a browser with scripts has them."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.browser.person import Person
from tests.browser.site import Site

NIGHT = ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z")
"""In Berlin the clock shows 02:30 at both (DB-05)."""

TIME = '<time datetime="{}" title="in the job’s zone" data-instant{}></time>'
PUT_IN = """
const box = document.createElement("p");
box.id = "put-in";
box.innerHTML = arguments[0].replace("NOW", new Date().toISOString());
document.getElementById("main").prepend(box);
Croniq.localize(box);
return [...box.querySelectorAll("time")].map((node) => [node.textContent, node.title]);
"""

SHOWN = """
const node = document.querySelector(arguments[0]);
return node && node.checkVisibility() ? node.innerText : "";
"""


def focused(person: Person) -> str:
    return person.driver.execute_script("return document.activeElement.textContent.trim()")


def shown(person: Person, selector: str) -> str:
    """The text of what is shown, empty of what is not."""
    return person.driver.execute_script(SHOWN, selector)


@pytest.mark.parametrize(
    ("zone", "texts"),
    [
        ("Europe/Berlin", ["02:30:00 +02:00", "02:30:00 +01:00"]),
        ("America/New_York", ["20:30:00", "21:30:00"]),
        ("UTC", ["00:30:00", "01:30:00"]),
    ],
)
def test_the_two_half_past_two_of_an_autumn_night_are_told_apart_and_time_moves(person, zone, texts):
    person.sign_in("vera")
    person.look(zone=zone)
    person.goto("/runners")
    told = person.driver.execute_script(PUT_IN, "".join(TIME.format(at, "") for at in NIGHT))
    assert [text[-len(end) :] for (text, _), end in zip(told, texts, strict=True)] == texts
    assert told[0][0] != told[1][0]
    assert all(title.endswith("\nin the job’s zone") for _, title in told)
    person.sees(f"Times are in {zone}")
    if zone != "UTC":
        return
    person.driver.execute_script(PUT_IN, TIME.format("2020-01-01T00:00:00Z", " data-relative"))
    # By the keyboard one comes to what the pointer hovers over.
    person.driver.execute_script("document.querySelector('#put-in time').focus({focusVisible: true})")
    assert "in the job’s zone" in shown(person, "#tip")
    person.driver.execute_script(PUT_IN, '<time datetime="NOW" data-since></time>')
    before = shown(person, "#put-in")
    person.wait(lambda: shown(person, "#put-in") != before, "the time that it takes moves on")


def test_a_tour_by_keys_through_the_rows_the_pages_and_the_palette(person):
    person.sign_in("otto")
    person.goto("/jobs")
    person.press("j", "j")
    second = focused(person)
    person.press("k")
    first = focused(person)
    assert first < second  # in the order of the list
    person.press("x")
    person.wait(lambda: shown(person, "#live") == "Paused while something is ticked", "it says that it is paused")
    person.press("x")
    person.wait(lambda: shown(person, "#live") == "", "it goes on")
    assert focused(person) == first
    # It is armed for two seconds: what comes later on a busy machine is pressed again.
    person.wait(lambda: person.press("g") or "now a letter" in shown(person, "#armed"), "g is armed, and says so")
    person.press(Keys.ESCAPE)
    person.wait(lambda: shown(person, "#armed") == "", "it is not armed any more")
    person.press("g")
    person.wait(lambda: shown(person, "#armed") == "", "it is not armed for ever")
    person.press("r")
    assert person.path == "/jobs"
    person.wait(lambda: person.path == "/runs" or person.press("g", "r"), "g r leads to the runs")
    person.press("/")
    person.press("jgx?")  # what one types in a field is text
    assert person.driver.execute_script("return document.activeElement.value") == "jgx?"
    assert person.path == "/runs"
    assert person.all("dialog") == []
    ActionChains(person.driver).key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
    person.find("option", "Now")
    person.press(first)
    person.wait(lambda: shown(person, "#palette [aria-selected=true] .key") == first, "it is found")
    person.press(Keys.ENTER)
    person.find("heading", first)
    person.press("?")
    person.find("dialog")
    person.press(Keys.ESCAPE)
    person.press(Keys.ENTER)  # on nothing
    assert person.path.startswith("/jobs/")


def test_a_refusal_is_said_where_it_was_clicked_and_what_was_done_leads_on(person, site: Site):
    person.expected = [r"\b(400|401)\b"]
    person.sign_in("otto")
    key = site.demo.objects["job_key"]
    person.goto(f"/jobs/{key}")
    path = person.path
    person.click("button", "Delete it")
    person.fill("to say that you mean it", "another")
    person.click("button", "Delete")
    person.wait(lambda: "Nothing was done" in shown(person, ".doing .wrong"), "it says at the field that it is not")
    assert person.path == path
    # A time is typed on the clock of whoever looks, whom only his browser knows.
    person.look(zone="Asia/Tokyo")
    person.goto(path)
    person.click("button", "Pause it, with a reason")
    until = person.find("field", "Until Asia/Tokyo")
    for when in ("2020-01-01T12:00", "2040-01-01T12:00"):
        person.driver.execute_script("arguments[0].value = arguments[1]", until, when)
        person.click("button", "Pause", until.find_element("xpath", "ancestor::form"))
        if when.startswith("2020"):
            person.wait(lambda: "This is past" in shown(person, "#pause-until-refused"), "it says so at the field")
    person.sees("Paused.")
    until = person.driver.find_element("id", "pause-until")
    assert until.get_attribute("data-at").startswith("2040-01-01T03:00:00")
    assert until.get_attribute("value") == "2040-01-01T12:00"
    person.click("button", "Resume")
    person.sees("Resumed.")
    person.look()
    person.click("button", "Delete it")
    person.fill("to say that you mean it", "another")
    # Confirmed, and then the session is gone.
    person.driver.delete_cookie("sessionid")
    person.click("button", "Delete")
    person.wait(lambda: "not signed in any more" in shown(person, ".doing .said"), "it says that the session is gone")
    assert person.all("link", "Sign in again")
    assert person.path == path
    person.sign_in("otto")
    person.goto(path)
    person.click("button", "Pause")
    person.sees("Paused.")
    person.click("button", "Resume")
    person.sees("Resumed.")


def test_a_part_that_keeps_itself_up_to_date_waits_while_nobody_looks_and_says_when_nobody_answers(person):
    person.expected = [r"ERR_INTERNET_DISCONNECTED", r"htmx-2\.min\.js"]  # the network is taken away
    person.sign_in("otto")
    person.goto("/runs")
    person.driver.execute_script("window.dispatchEvent(new Event('blur'))")
    person.wait(lambda: shown(person, "#live") == "Paused while this window is behind", "it waits")
    person.driver.execute_script("window.dispatchEvent(new Event('focus'))")
    person.wait(lambda: shown(person, "#live") == "", "it goes on")
    _go(person, is_offline=True)
    try:
        person.wait(lambda: shown(person, "#live").startswith("No answer since"), "it says since when")
    finally:
        _go(person, is_offline=False)
    person.wait(lambda: shown(person, "#live") == "", "it is answered again")
    # Nor is lost what somebody wrote, where the fields of another choice do not come.
    person.goto("/alerts/exemptions/new")
    person.fill("Why", "the bank is down")
    _go(person, is_offline=True)
    try:
        person.choose("What is to be", "tell as ever, with another grace or less often")
        person.wait(lambda: "What you wrote is kept" in shown(person, "#effect-refused"), "it says so at the field")
        assert person.find("field", "Why").get_attribute("value") == "the bank is down"
    finally:
        _go(person, is_offline=False)
    person.choose("What is to be", "look for nothing for a time, as if there were no rule")
    person.wait(lambda: not person.driver.find_elements("id", "effect-refused"), "it is said no more")
    person.choose("What is to be", "tell as ever, with another grace or less often")
    person.wait(lambda: person.driver.find_elements("id", "grace"), "its fields come")
    assert person.find("field", "Why").get_attribute("value") == "the bank is down"


def _go(person: Person, *, is_offline: bool) -> None:
    network = {"offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    person.driver.execute_cdp_cmd("Network.enable", {})
    person.driver.execute_cdp_cmd("Network.emulateNetworkConditions", network)
