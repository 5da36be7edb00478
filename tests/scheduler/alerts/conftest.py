"""The client of the API's other tests."""

from tests.scheduler.api.conftest import api, clock  # noqa: F401 - fixtures
