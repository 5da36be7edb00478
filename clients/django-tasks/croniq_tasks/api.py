"""Croniq's HTTP API, as far as tasks need it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import quote

import httpx

PATIENCE_SECONDS = 15.0
"""How long a server that restarts is waited for."""
RETRY_SECONDS = 0.25
REQUEST_SECONDS = 10.0
PAGE_ROWS = 500
_AWAY = {502, 503, 504}
_NEVER = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
"""No waiting mends an address without a scheme, or a key that no header can carry."""


class CroniqRefused(Exception):
    """Croniq's answer was a refusal. ``status``: that of HTTP; ``code``: the API's word for it."""

    def __init__(self, answer: httpx.Response) -> None:
        try:
            said = answer.json()
        except ValueError:
            said = {}
        said = said if isinstance(said, dict) else {}
        self.status, self.code = answer.status_code, str(said.get("error", ""))
        fields = "; ".join(f"{name}: {' '.join(texts)}" for name, texts in (said.get("fields") or {}).items())
        super().__init__(f"{self.status} {fields or said.get('message') or answer.reason_phrase}")


class Api:
    """What is asked of one Croniq with one key."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url.rstrip("/"), key
        self._client: tuple[int, httpx.Client] | None = None

    def get(self, path: str, **params: Any) -> Any:
        # Without any, None: an empty dict would take away those that the path has.
        return self._ask("GET", path, params=params or None)

    def pages(self, path: str, **params: Any) -> Iterator[Any]:
        """Yield the rows of a list, a page at a time."""
        page = self.get(path, page_size=PAGE_ROWS, **params)
        while True:
            yield from page["results"]
            if page["next"] is None:
                return
            page = self.get(page["next"])

    def post(self, path: str, body: Any, *, patience: float | None = None) -> Any:
        """Only for what may be said twice: an answer that is lost is asked for again, for ``patience`` seconds."""
        return self._ask("POST", path, patience, json=body)

    def put(self, path: str, body: dict[str, Any]) -> Any:
        return self._ask("PUT", path, json=body)

    def delete_job(self, job_key: str) -> bool:
        """Return False for one that is gone: another has deleted it, or this, and the answer was lost."""
        try:
            # What follows a # or ? would be no part of the path, and what stands before it may be another job's key.
            self._ask("DELETE", f"/v1/jobs/{quote(job_key, safe='')}")
        except CroniqRefused as refusal:
            if refusal.status != 404:
                raise
            return False
        return True

    def trigger(self, job_key: str, metadata: dict[str, Any], run_at: datetime | None = None) -> str:
        """Make one run, also where an answer is lost on its way; return its id. ``run_at`` (aware) None: due now."""
        body = {"job_key": job_key, "metadata": metadata, "idempotency_key": str(uuid.uuid4())}
        if run_at is not None:
            body["run_at"] = run_at.isoformat()
        return self.post("/v1/trigger", body)["execution_id"]

    def _ask(self, method: str, path: str, patience: float | None = None, **more: Any) -> Any:
        ends_at = time.monotonic() + (PATIENCE_SECONDS if patience is None else patience)
        while True:
            # One that hangs has what is left and no more, but enough to be answered at all.
            seconds = max(1.0, min(REQUEST_SECONDS, ends_at - time.monotonic()))
            try:
                answer = self._http().request(method, path, timeout=seconds, **more)
            except _NEVER:
                raise
            except httpx.TransportError:
                if time.monotonic() > ends_at:
                    raise
            else:
                if answer.status_code not in _AWAY or time.monotonic() > ends_at:
                    break
            time.sleep(RETRY_SECONDS)
        if answer.is_success:
            return answer.json() if answer.content else None
        raise CroniqRefused(answer)

    def _http(self) -> httpx.Client:
        if self._client is None or self._client[0] != os.getpid():
            self._client = os.getpid(), _connected(os.getpid(), self._url, self._key)
        return self._client[1]


@cache
def _connected(pid: int, url: str, key: str) -> httpx.Client:
    """One keep-alive client for all backends of a process: Django makes a backend for each thread and each context, so
    for each request of an ASGI server, and to make a client takes longer than five requests. Not for a process and its
    fork: sockets that both have would mix up two answers."""
    return httpx.Client(base_url=url, headers={"Authorization": f"ApiKey {key}"})
