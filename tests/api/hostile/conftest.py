"""The client of the API's other tests."""

from tests.scheduler.api.conftest import api, clock, everything  # noqa: F401 - fixtures
