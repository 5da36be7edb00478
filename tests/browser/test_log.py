"""A log of 20,000 lines in a browser: a window of it that moves with its reader."""

from __future__ import annotations

from tests.browser.person import Person

WINDOW = """
const box = document.getElementById("log-lines");
const lines = [...box.querySelectorAll("li")];
const top = box.getBoundingClientRect().top;
const read = lines.find((line) => line.getBoundingClientRect().bottom > top + 1);
return [lines.map((line) => Number(line.id.slice(1))), Number(read.id.slice(1))];
"""
SCROLL = "document.getElementById('log-lines').scrollTop = arguments[0]"
MOST = 3000


def window(person: Person) -> tuple[list[int], int]:
    """The numbers of the lines that are there, and of the first one in sight."""
    numbers, read = person.driver.execute_script(WINDOW)
    return numbers, read


def test_a_long_log_is_a_window_that_keeps_its_readers_place(person, site):
    person.sign_in("vera")
    path = f"/runs/{site.demo.objects['long_run_id']}/log"
    person.goto(path)
    person.wait(lambda: window(person)[1] > 19_900, "the end is in sight first")
    first = window(person)[0][0]
    while first > 15_000:
        person.driver.execute_script(SCROLL, 300)
        read = window(person)[1]
        person.wait(lambda: window(person)[0][0] < first, "earlier lines come")  # noqa: B023 - called in this turn
        numbers, still_read = window(person)
        assert still_read == read
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert len(numbers) <= MOST
        first = numbers[0]
    assert window(person)[0][-1] < 20_000  # what is far below went as it came
    person.goto(f"{path}?line=10000")
    person.wait(lambda: 9_960 < window(person)[1] <= 10_000, "the line of the address is in sight")
    person.click("link", "9999")
    assert person.path == f"{path}?line=9999#L9999"
