"""A task that ends when it is told to."""

import threading
from pathlib import Path

from django_tasks import task

_LOOK_SECONDS, _MOST_LOOKS = 0.05, 2_000


@task
def pack(directory: str) -> str:
    (Path(directory) / "begun").touch()
    looks = 0
    while not (Path(directory) / "may-end").exists() and looks < _MOST_LOOKS:
        threading.Event().wait(_LOOK_SECONDS)
        looks += 1
    return "packed"
