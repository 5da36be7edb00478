"""Tasks that only tests need: one that ends when it is told to, one that is hard to tell of."""

import logging
import threading
from pathlib import Path

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

log = logging.getLogger(__name__)
_LOOK_SECONDS, _MOST_LOOKS = 0.05, 2_000


@task
def pack(directory: str) -> str:
    (Path(directory) / "begun").touch()
    looks = 0
    while not (Path(directory) / "may-end").exists() and looks < _MOST_LOOKS:
        threading.Event().wait(_LOOK_SECONDS)
        looks += 1
    return "packed"


@task
def drop() -> None:
    log.warning("half \ud800")
    log.warning("%d boxes", "no")
    raise ValueError("half \ud800")
