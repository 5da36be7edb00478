"""The example's settings with a task that only tests need."""

from settings import *  # noqa: F403
from settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.clients.warehouse"]
