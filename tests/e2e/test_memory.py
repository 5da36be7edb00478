"""However much is sent at once, a server's memory stays: bodies are refused, or cut while they arrive."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from scheduler.models import Run, RunLog
from tests.e2e.installation import installation

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True)]

MIB = 1024 * 1024
BODIES, BODY_BYTES = 50, 50 * MIB
MOST_MORE_MIB = 200
"""Of 2,500 MiB that are sent at once."""
REFUSING = ("/v1/jobs", "/sign-in", "/v1/work/poll", "/v1/trigger")
BLOCK = b"x" * (512 * 1024)


def peak_mib(pid: int) -> float:
    """The most memory that a process has had, in MiB (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM")


def upload(address: tuple[str, int], head: bytes, begin: bytes, end: bytes, *, chunked: bool, start: threading.Barrier):
    """Send about 50 MiB, as far as it is taken; return the status of the answer."""
    with socket.create_connection(address, timeout=110) as client:
        blocks = BODY_BYTES // len(BLOCK)
        length = len(begin) + blocks * len(BLOCK) + len(end)
        framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % length
        start.wait(100)
        try:
            client.sendall(head + framing + b"\r\nConnection: close\r\n\r\n")
            for part in (begin, *[BLOCK] * blocks, end, *([b""] if chunked else [])):
                client.sendall(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused while it was sent
        said = b""
        try:
            while part := client.recv(65_536):
                said += part
        except ConnectionResetError:
            pass
        return int(said.split()[1]) if said else 0


@pytest.mark.timeout(240)
def test_fifty_bodies_of_50_mib_at_once_and_twenty_thousand_lines_leave_the_memory_as_it_was():
    with installation([]) as site:
        (server,) = site.processes
        key, runner_key = site.key("admin"), site.key("work:poll", "work:ack", "work:events")
        work = {"runner_id": "r1", "instance_id": "i1", "max_inflight": 20}
        with site.http(key) as http, site.http(runner_key) as runner:
            assert http.post("/v1/jobs", json={"job_key": "big:error", "max_retries": 0}).status_code == 201
            for _ in range(10):
                assert http.post("/v1/trigger", json={"job_key": "big:error"}).status_code == 200
            held = [one["execution_id"] for one in runner.post("/v1/work/poll", json=work).json()["work"]]
            assert len(held) == 10
            talker, *failing = held
            line = {"message": "x" * 60}
            for _ in range(200):
                assert runner.post(f"/v1/work/{talker}/events", json=[line] * 100).json() == {"accepted": 100}
            assert http.get(f"/v1/executions/{talker}/logs").status_code == 200
        assert RunLog.objects.filter(run_id=talker).count() == 20_000

        netloc = urlsplit(site.base_url)
        address = netloc.hostname, netloc.port
        before = peak_mib(server.pid)
        barrier = threading.Barrier(BODIES)

        def head(path: str, with_key: str) -> bytes:
            lines = [f"POST {path} HTTP/1.1", f"Host: {netloc.netloc}", f"Authorization: ApiKey {with_key}"]
            return "\r\n".join([*lines, "Content-Type: application/json", ""]).encode()

        def ack(run_id: str) -> tuple[bytes, bytes]:
            body = {"runner_id": "r1", "execution_id": run_id, "attempt": 1, "error": "@", "status": "failure"}
            begin, end = json.dumps(body).encode().split(b"@")
            return begin, end

        with ThreadPoolExecutor(BODIES) as threads:

            def sent(path: str, with_key: str, begin: bytes, end: bytes, number: int):
                return threads.submit(
                    upload, address, head(path, with_key), begin, end, chunked=number % 2 == 0, start=barrier
                )

            acks = [sent("/v1/work/ack", runner_key, *ack(run_id), n) for n, run_id in enumerate(failing)]
            others = [
                sent(path, key, b'{"description": "', b'"}', n)
                for n, path in enumerate(islice(cycle(REFUSING), BODIES - len(acks)))
            ]
            assert [one.result(120) for one in acks] == [200] * len(failing)
            # 0: the rest of what it does not read, the server answers with a reset, which can overtake its words.
            assert {one.result(120) for one in others} <= {413, 0}
        assert httpx.get(f"{site.base_url}/health").status_code == 200
        more = peak_mib(server.pid) - before
        assert more < MOST_MORE_MIB
        errors = Run.objects.filter(pk__in=failing, verdict="dead").values_list("error", flat=True)
        assert [len(error.encode()) <= 65_536 for error in errors] == [True] * len(failing)
