"""Runners as cheap as a client can be, in a process of their own: poll, then say that every run is done, and again.

    python -m benchmarks.load HOST PORT KEY CONNECTIONS K SECONDS WORDS

Prints one line of JSON. ``WORDS`` is ``one`` (an ack for each run, what every SDK sends) or ``list`` (one for all runs
of a poll). One request at a time on each connection. No HTTP library: the answers' form is known, and what the client
uses of the two cores is taken from the server.
"""

# ruff: noqa: T201
from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from typing import Any

import orjson
import uvloop

from benchmarks.bed import percentile


class Tally:
    def __init__(self) -> None:
        self.polls = self.acks = self.runs = self.empty = self.bad = 0
        self.poll_ms: list[float] = []
        self.ack_ms: list[float] = []
        self.worst = ""


class Connection(asyncio.Protocol):
    """One runner on one connection."""

    def __init__(self, number: int, k: int, words: str, head: bytes, tally: Tally) -> None:
        self.runner_id, self.words, self.head, self.tally = f"bench-{number}", words, head, tally
        self.poll = self.request("poll", {"runner_id": self.runner_id, "instance_id": "i", "max_inflight": k})
        self.acks: deque[tuple[int, bytes]] = deque()
        self.data = b""
        self.acked = 0
        self.stopped = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def request(self, word: str, body: Any) -> bytes:
        text = orjson.dumps(body)
        return b"POST /v1/work/%b HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n%b" % (
            word.encode(),
            self.head,
            len(text),
            text,
        )

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.sent_at = time.perf_counter()
        if self.acks:
            self.acked, request = self.acks.popleft()
            self.transport.write(request)
        else:
            self.acked = 0
            self.transport.write(self.poll)

    def data_received(self, data: bytes) -> None:
        self.data = self.data + data if self.data else data
        end = self.data.find(b"\r\n\r\n")
        if end < 0:
            return
        at = self.data.find(b"content-length: ")
        length = int(self.data[at + 16 : self.data.find(b"\r\n", at)])
        if len(self.data) < end + 4 + length:
            return
        status, body, self.data = self.data[9:12], self.data[end + 4 :], b""
        self.answered(status, body)
        if self.stopped and not self.acks:
            self.done.set_result(None)
        else:
            self.ask()

    def answered(self, status: bytes, body: bytes) -> None:
        tally, took = self.tally, (time.perf_counter() - self.sent_at) * 1e3
        if status != b"200":
            tally.bad += 1
            tally.worst = f"{status!r} {body[:200]!r}"
        elif self.acked:
            tally.acks += 1
            tally.runs += self.acked
            tally.ack_ms.append(took)
        else:
            tally.polls += 1
            tally.poll_ms.append(took)
            work = orjson.loads(body)["work"]
            if not work:
                tally.empty += 1
            words = [
                {
                    "runner_id": self.runner_id,
                    "execution_id": run["execution_id"],
                    "status": "success",
                    "attempt": run["attempt"],
                    "duration_ms": 1,
                }
                for run in work
            ]
            if self.words == "list" and words:
                self.acks.append((len(words), self.request("ack", words)))
            else:
                self.acks.extend((1, self.request("ack", word)) for word in words)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.stopped:
            self.tally.bad += 1
            self.tally.worst = f"connection lost: {error!r}"


async def load(host: str, port: int, key: str, number: int, k: int, seconds: float, words: str) -> dict[str, Any]:
    head = f"host: {host}\r\nauthorization: ApiKey {key}\r\ncontent-type: application/json\r\n".encode()
    tally, loop = Tally(), asyncio.get_running_loop()
    began, used = time.perf_counter(), time.process_time()
    connections = []
    for n in range(number):
        _, one = await loop.create_connection(lambda n=n: Connection(n, k, words, head, tally), host, port)
        connections.append(one)
    await asyncio.sleep(seconds)
    took, used = time.perf_counter() - began, time.process_time() - used
    runs, polls, acks = tally.runs, tally.polls, tally.acks
    for one in connections:
        one.stopped = True
    # What is on its way is answered and what was claimed is acked: the next load's runners have the same names, and
    # would be handed out again what these left.
    await asyncio.wait([one.done for one in connections], timeout=20)
    for one in connections:
        one.transport.close()
    return {
        "seconds": took,
        "client_seconds": used,
        "runs": runs,
        "polls": polls,
        "acks": acks,
        "empty": tally.empty,
        "bad": tally.bad,
        "worst": tally.worst,
        "poll_p50_ms": percentile(tally.poll_ms, 0.5),
        "poll_p99_ms": percentile(tally.poll_ms, 0.99),
        "ack_p50_ms": percentile(tally.ack_ms, 0.5),
        "ack_p99_ms": percentile(tally.ack_ms, 0.99),
    }


def main() -> None:
    host, port, key, number, k, seconds, words = sys.argv[1:]
    print(json.dumps(uvloop.run(load(host, int(port), key, int(number), int(k), float(seconds), words))))


if __name__ == "__main__":
    main()
