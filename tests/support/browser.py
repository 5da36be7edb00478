"""Debian's chromium, led by its driver: started for tests and screens, without a window, also as root in a container.

Standard library only at import: `manage.py test` asks here whether there is a browser before anything else is loaded.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

DATABASES_VARIABLE = "CRONIQ_TEST_DATABASES"
"""Names the databases that tests run on side by side: of a browser each test is led through one of them alone."""
BROWSERS, DRIVERS = ("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)
LOAD_SECONDS = 60
"""Met only by failures: a page that two busy cores share with twenty processes."""
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root has none, and a container gives it no namespaces
    "--disable-dev-shm-usage",  # 64 MB of shared memory is what a container has
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--lang=en-US",
    "--window-size=1400,900",
)


def missing() -> str:
    """Say in a sentence what the browser tests lack here; empty if there is a browser with its driver."""
    lacks = [names[0] for names in (BROWSERS, DRIVERS) if _found(names) is None]
    if not lacks:
        return ""
    return f"no {' and no '.join(lacks)} on PATH (Debian: apt-get install chromium chromium-driver)"


def _found(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


@contextlib.contextmanager
def chromium() -> Iterator[Chrome]:
    """Yield a running browser with an empty profile; its console is kept for `get_log("browser")`."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = _found(BROWSERS) or ""
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # A driver that is named is not looked for, which would ask the network.
    service = Service(executable_path=_found(DRIVERS), env={**os.environ, "LC_ALL": "C.UTF-8"})
    driver = Chrome(options=options, service=service)
    try:
        driver.set_page_load_timeout(LOAD_SECONDS)
        driver.set_script_timeout(LOAD_SECONDS)
        yield driver
    finally:
        driver.quit()
