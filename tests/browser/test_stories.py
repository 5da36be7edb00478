"""What people do at the pages, from the click to what the runner did: no story knows more than the pages show."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.browser.demo import PASSWORD
from tests.browser.site import Site
from tests.support.polling import poll_until

EVERY_DAY = "every-day"
PATIENCE_SECONDS = 90


@pytest.fixture
def api(site: Site) -> Iterator[httpx.Client]:
    with site.api as client:
        yield client


def make_job(api: httpx.Client, key: str, shell: str, **more: object) -> str:
    definition = {"job_key": key, "action": {"type": "command", "shell": shell}, "max_retries": 0, **more}
    api.post("/v1/jobs", json=definition).raise_for_status()
    return key


def trigger(api: httpx.Client, key: str) -> str:
    answer = api.post("/v1/trigger", json={"job_key": key})
    answer.raise_for_status()
    return answer.json()["execution_id"]


def state_of(api: httpx.Client, run_id: str) -> str:
    return api.get(f"/v1/executions/{run_id}").json()["state"]


def log_of(api: httpx.Client, run_id: str) -> list[str]:
    return [line["message"] for line in api.get(f"/v1/executions/{run_id}/logs").json()]


def letters_of(api: httpx.Client, key: str, number: int) -> list[dict]:
    """The job's dead letters, as soon as there are ``number``."""

    def found() -> list[dict] | None:
        letters = api.get("/v1/dead-letters", params={"job_key": key}).json()
        return letters if len(letters) >= number else None

    return poll_until(found, PATIENCE_SECONDS, what=f"{number} letters of {key}")


def test_signing_in_refuses_a_wrong_password_and_leads_to_the_page_that_was_asked_for(person):
    person.fill_in_sign_in("vera", "not her password", "/runners")
    assert "do not belong together" in person.find("alert").text
    assert person.path.startswith("/sign-in")
    person.fill("Name", "vera")
    person.fill("Password", PASSWORD)
    person.click("button", "Sign in")
    person.find("heading", "Runners")
    assert person.path == "/runners"
    person.click("button", "Sign out")
    person.find("heading", "Sign in")
    person.goto("/runners")
    person.find("button", "Sign in")


def test_a_job_with_a_calendar_is_made_previewed_and_seen_to_fire(person, api):
    week = {"effect": "include", "name": "all week", "weekdays": [1, 2, 3, 4, 5, 6, 7]}
    api.post("/v1/calendars", json={"name": EVERY_DAY, "timezone": "UTC", "rules": [week]}).raise_for_status()
    person.sign_in("ada")
    person.goto("/jobs")
    person.click("link", "New job")
    person.fill("Key", "story:made")
    person.choose("What it runs", "a shell command")
    person.fill("The command, or the JSON", "echo made by hand")
    person.choose("Kind", "every")
    person.choose("Calendar", EVERY_DAY)
    # While one writes, the form says what it means.
    person.fill("When", "5s")
    person.sees("very 5 s")
    person.click("button", "Make the job")
    person.find("heading", "story:made")
    person.find("link", EVERY_DAY)
    person.click("link", "All its runs")
    # The list keeps itself up to date.
    person.sees("Completed")
    row = person.find("row", "Completed")
    person.find("link", "", row).click()
    person.sees("made by hand")


def test_a_log_arrives_while_it_is_written(person, api):
    key = make_job(api, "story:talks", "for n in $(seq 1 12); do echo line number $n.; sleep 0.5; done")
    person.sign_in("otto")
    person.goto(f"/jobs/{key}")
    person.click("button", "Run now")
    person.wait(lambda: person.path.startswith("/runs/"), "the page of the run that was made")
    person.driver.execute_script("window.isTheSamePage = true")
    person.sees("line number 2.")
    assert "line number 12." not in person.text
    person.sees("line number 12.", "Completed")
    assert person.driver.execute_script("return window.isTheSamePage")


def test_a_running_run_is_cancelled(person, api):
    key = make_job(
        api,
        "story:long",
        "trap 'echo told to stop; exit 1' TERM; echo begun; while :; do sleep 0.2; done",
        timeout="1h",
    )
    run_id = trigger(api, key)
    person.sign_in("otto")
    person.goto(f"/runs/{run_id}")
    person.sees("begun")
    person.click("button", "Cancel this run")
    dialog = person.find("dialog")
    assert "told to stop" in dialog.text  # what it will do is said before it is done
    person.click("button", "Cancel this run", dialog)
    poll_until(lambda: state_of(api, run_id) == "cancelled", PATIENCE_SECONDS, what="it is cancelled")
    person.wait(lambda: not person.all("button", "Cancel this run"), "there is nothing left to cancel")
    # Its handler is stopped too, and what it says then is kept.
    poll_until(lambda: "told to stop" in log_of(api, run_id), PATIENCE_SECONDS, what="the handler's last line")
    person.goto(f"/runs/{run_id}")
    person.sees("Cancelled", "told to stop")


def test_a_letter_is_replayed_and_all_of_a_kind_are_retried_in_one_go(person, api):
    key = make_job(api, "story:breaks", 'test -n "$CRONIQ_NEVER" || { echo no bread >&2; exit 3; }')
    for _ in range(3):
        trigger(api, key)
    letters_of(api, key, 3)
    person.sign_in("otto")
    person.goto(f"/letters?job={key}")
    person.find("link", "", person.find("row", key)).click()
    person.find("heading", "exit code <n>")
    person.find("link", "", person.find("row", key)).click()
    person.click("button", "Replay")
    person.sees("Replay of")
    letters_of(api, key, 4)  # the replay died as well
    person.goto(f"/letters?job={key}")
    person.find("link", "", person.find("row", key)).click()
    person.click("link", "Replay all…")
    person.find("heading", "Replay 3 of 4 letters?")
    person.click("button", "Replay them")
    person.find("alert", "3")
    assert len(letters_of(api, key, 7)) == 7


def test_a_job_is_paused_with_a_reason_that_others_see(person, api):
    key = make_job(api, "story:rests", "true")
    person.sign_in("otto")
    person.goto(f"/jobs/{key}")
    person.click("button", "Pause it, with a reason")
    person.fill("Reason", "the disk is full")
    form = person.find("field", "Reason").find_element("xpath", "ancestor::form")
    person.click("button", "Pause", form)
    person.sees("Paused", "the disk is full")
    person.sign_in("vera")
    person.goto("/now")
    person.sees(key, "the disk is full")
    # Whoever only looks is not offered what would be refused.
    person.goto(f"/jobs/{key}")
    person.sees("the disk is full")
    assert person.all("button", "Resume") == []
    person.sign_in("otto")
    person.goto(f"/jobs/{key}")
    person.click("button", "Resume")
    person.wait(lambda: "the disk is full" not in person.text, "it is not paused any more")
