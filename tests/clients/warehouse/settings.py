"""The example's settings with a task that only tests need."""

from settings import *  # noqa: F403
from settings import INSTALLED_APPS, TASKS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.clients.warehouse"]
TASKS["default"]["OPTIONS"]["job"]["lease"] = "5m"  # longer than any machine needs to tell a worker of a cancel
