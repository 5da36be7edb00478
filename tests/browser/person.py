"""Somebody at the browser: looks for what is there by role and name, as a person or a screen reader does, and waits for
it. Nothing is found that is not shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    JavascriptException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from tests.browser.demo import PASSWORD
from tests.support.polling import poll_until

T = TypeVar("T")

PATIENCE_SECONDS = 60
"""How long something may take to appear; met only by failures."""
INTERVAL_SECONDS = 0.1
WIDE, NARROW = 1400, 360
_SELECTORS = {
    "button": "button, summary, input[type=submit], [role=button]",
    "link": "a[href]",
    "heading": "h1, h2, h3, h4",
    "field": "input:not([type=hidden]), textarea, select",
    "row": "tbody tr, [role=row]",
    "dialog": "dialog[open], [role=dialog]",
    "alert": "[role=alert], [role=status]",
    "option": "[role=option]",
}
_FIND = Path(__file__).with_name("find.js").read_text(encoding="utf-8")


class Person:
    """One browser. ``codes`` open for whoever has a second factor; ``expected``: patterns of console errors that this
    test is about."""

    def __init__(self, driver: Chrome, base_url: str, codes: Sequence[str] = ()) -> None:
        self.driver = driver
        self.base_url = base_url
        self.codes = list(codes)
        self.expected: list[str] = []
        self._sessions: dict[str, str] = {}

    # Where

    def goto(self, path: str) -> None:
        self.driver.get(self.base_url + path)

    @property
    def path(self) -> str:
        return self.driver.current_url.removeprefix(self.base_url)

    def sign_in(self, name: str) -> None:
        """Be that one of the demo's people from the next page on; through the form the first time."""
        if name not in self._sessions:
            self.sign_out()
            self.fill_in_sign_in(name, PASSWORD)
            if (
                self.wait(lambda: self.all("field", "Code") or not self.path.startswith("/sign-in"), "it goes on")
                is not True
            ):
                self.fill("Code", self.codes.pop())
                self.click("button", "Sign in")
            self.wait(lambda: not self.path.startswith("/sign-in"), "signed in")
            self._sessions[name] = self.driver.get_cookie("sessionid")["value"]
        self.sign_out()
        cookie = {"name": "sessionid", "value": self._sessions[name], "url": self.base_url, "httpOnly": True}
        self.driver.execute_cdp_cmd("Network.setCookie", cookie)

    def sign_out(self) -> None:
        """Be nobody from the next page on; a session that was made is not ended by it."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})

    def fill_in_sign_in(self, name: str, password: str, path: str = "/sign-in") -> None:
        self.goto(path)
        self.fill("Name", name)
        self.fill("Password", password)
        self.click("button", "Sign in")

    # What is there

    def all(self, role: str, name: str = "", within: WebElement | None = None) -> list[WebElement]:
        """All shown elements of a role whose name is ``name``, else those in whose name it occurs."""
        return self.driver.execute_script(_FIND, _SELECTORS[role], name, within) or []

    def find(self, role: str, name: str = "", within: WebElement | None = None) -> WebElement:
        """The first of `all`, as soon as there is one."""
        return self.wait(lambda: self.all(role, name, within), f"{role} {name!r}")[0]

    @property
    def text(self) -> str:
        """What the page shows; "" between two pages."""
        return self.driver.execute_script("return document.body ? document.body.innerText : ''") or ""

    def sees(self, *texts: str) -> None:
        """Wait until the page shows all of them at once."""
        self.wait(lambda: all(text in self.text for text in texts), f"the page shows {texts}")

    def wait(self, condition: Callable[[], T], what: str) -> T:
        """Poll ``condition``, which may look at elements that are just being replaced."""

        def looked() -> T | None:
            try:
                return condition()
            except (StaleElementReferenceException, JavascriptException):
                return None

        try:
            return poll_until(looked, PATIENCE_SECONDS, what=what, interval_s=INTERVAL_SECONDS)
        except AssertionError as late:
            raise AssertionError(f"{late}\nat {self.path}:\n{self.text[:3000]}") from None

    # What can be done

    def click(self, role: str, name: str, within: WebElement | None = None) -> None:
        """Press it, again if it is replaced under the pointer."""

        def pressed() -> bool:
            found = self.all(role, name, within)
            if not found:
                return False
            try:
                found[0].click()
            except (ElementClickInterceptedException, ElementNotInteractableException):
                self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found[0])
                return False
            return True

        self.wait(pressed, f"press the {role} {name!r}")

    def fill(self, name: str, text: str, within: WebElement | None = None) -> None:
        """Write into a field, in place of what is in it."""
        field = self.find("field", name, within)
        field.clear()
        field.send_keys(text)

    def choose(self, name: str, option: str, within: WebElement | None = None) -> None:
        Select(self.find("field", name, within)).select_by_visible_text(option)

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    # How it is shown

    def look(self, *, width: int = WIDE, is_dark: bool = False, moves: bool = False, zone: str = "UTC") -> None:
        """Have this width, this scheme and this zone, on the page that is open too."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {
                "features": [
                    {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"},
                    {"name": "prefers-reduced-motion", "value": "no-preference" if moves else "reduce"},
                ]
            },
        )
        self.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": zone})

    def complaints(self) -> list[str]:
        """What the browser complained of since the last look: errors of scripts, of the policy, of the network."""
        try:
            entries: Sequence[dict[str, Any]] = self.driver.get_log("browser")
        except TimeoutException:
            return ["the browser does not answer"]
        told = [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]
        return [line for line in told if not any(re.search(pattern, line) for pattern in self.expected)]
