"""The first start of an installation: an administrator, a key for the local runner, demo jobs."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.contrib.auth import get_user_model

from croniq_site.kernel.database import one_at_a_time, write_transaction
from runners.domain.scopes import RUNNER_SCOPES
from runners.models import ApiClient
from runners.queries.principals import principal_of
from runners.services.clients import create_client, issue_key

ADMIN_NAME = "admin"
LOCAL_RUNNER_CLIENT = "local-runner"
FIRST_START = 0x43524F4E
"""Number of the lock under which hosts that start at once on one database set it up one after the other."""


@dataclass(frozen=True)
class NewAdmin:
    """A superuser that was just made; the password is known this once."""

    name: str
    password: str


def ensure_admin() -> NewAdmin | None:
    """Make a superuser, ``admin`` where the name is free, if there is none yet; None where there is."""
    users = get_user_model()
    with write_transaction(), one_at_a_time(FIRST_START):
        if users.objects.filter(is_superuser=True).exists():
            return None
        # A user of that name who may nothing is somebody's; the administrator gets another one.
        name = next(name for name in _names() if not users.objects.filter(username=name).exists())
        password = secrets.token_urlsafe(12)
        users.objects.create_superuser(username=name, password=password)
    return NewAdmin(name, password)


def _names() -> Iterator[str]:
    yield ADMIN_NAME
    yield from (f"{ADMIN_NAME}{number}" for number in itertools.count(2))


def ensure_local_runner_key(path: Path, now: datetime) -> Path:
    """Return ``path``, a file (mode 0600) with a key that is good for the local runner; a good one is left as it is."""
    if path.exists():
        principal = principal_of(path.read_text(errors="replace").strip(), now)
        if principal is not None and principal.name == LOCAL_RUNNER_CLIENT:
            return path
    with write_transaction(), one_at_a_time(FIRST_START):
        client = ApiClient.objects.filter(name=LOCAL_RUNNER_CLIENT).first()
        if client is None:
            client = create_client(LOCAL_RUNNER_CLIENT, RUNNER_SCOPES, now)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(issue_key(client, now))
    part.replace(path)
    return path
