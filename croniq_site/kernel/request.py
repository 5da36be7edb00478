"""Which request this is: one id for its answer, its log lines and what the audit tells of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import uuid4

HEADER = "X-Request-ID"
MOST_CHARACTERS = 64

request_id: ContextVar[str | None] = ContextVar("croniq_request_id", default=None)
"""None where no request is being answered: a worker, a command, or work that several requests share."""

_SANE = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:+=/@-]{{0,{MOST_CHARACTERS - 1}}}")


def id_of_request(header: str | None) -> str:
    """Return what the caller's ``X-Request-ID`` says, if it is 1 to 64 plain characters, else a fresh id: what is
    written into logs and the audit must neither break a line nor pass for something else."""
    return header if header and _SANE.fullmatch(header) else uuid4().hex


@contextmanager
def answering(header: str | None) -> Iterator[str]:
    """Within it `request_id` is that of the request with this header."""
    token = request_id.set(id_of_request(header))
    try:
        yield request_id.get()
    finally:
        request_id.reset(token)
