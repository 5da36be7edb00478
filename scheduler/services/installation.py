"""The first start of an installation: an administrator, a key for the local runner, demo jobs."""

from __future__ import annotations

import os
import secrets
from datetime import datetime
from pathlib import Path

from django.contrib.auth import get_user_model

from croniq_site.kernel.database import write_transaction
from runners.domain.scopes import RUNNER_SCOPES
from runners.models import ApiClient
from runners.queries.principals import principal_of
from runners.services.clients import create_client, issue_key

ADMIN_NAME = "admin"
LOCAL_RUNNER_CLIENT = "local-runner"


def ensure_admin() -> str | None:
    """Make the user ``admin`` if there is no superuser yet and return its password, the only time that it is known."""
    users = get_user_model()
    with write_transaction():
        if users.objects.filter(is_superuser=True).exists():
            return None
        password = secrets.token_urlsafe(12)
        users.objects.create_superuser(username=ADMIN_NAME, password=password)
    return password


def ensure_local_runner_key(path: Path, now: datetime) -> Path:
    """Return ``path``, a file (mode 0600) with a key that is good for the local runner; a good one is left as it is."""
    if path.exists():
        principal = principal_of(path.read_text().strip(), now)
        if principal is not None and principal.name == LOCAL_RUNNER_CLIENT:
            return path
    client = ApiClient.objects.filter(name=LOCAL_RUNNER_CLIENT).first()
    if client is None:
        client = create_client(LOCAL_RUNNER_CLIENT, RUNNER_SCOPES, now)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(issue_key(client, now))
    part.replace(path)
    return path
