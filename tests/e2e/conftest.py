"""An installation for each story, and a client that may do everything."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.installation import Installation, installation


@pytest.fixture
def site() -> Iterator[Installation]:
    with installation() as running:
        yield running


@pytest.fixture
def api(site: Installation) -> Iterator[httpx.Client]:
    with site.http(site.key()) as client:
        yield client
