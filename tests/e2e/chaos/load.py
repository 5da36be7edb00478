"""The jobs of the chaos test, and who triggers them: again and again with the same key until there is an answer."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from concurrent.futures import Future
from random import Random

import httpx

from tests.support.races import in_thread

GROUP, GROUP_LIMIT = "chaos", 3
DEEP = 1_000_000
RETRY = {"strategy": "fixed", "base": "0.5s", "jitter": 0.5}
LEASE = 8

# name: (what its handler does, the share of the triggers, its schedule, its rules)
JOBS: dict[str, tuple[str, int, dict | None, dict]] = {
    "chaos:plain": ("works", 30, {"every": "1s"}, {}),
    "chaos:urgent": ("works", 10, {"every": "2s"}, {"priority": 9}),
    "chaos:idle": ("works", 10, {"every": "1s"}, {"priority": -9}),
    "chaos:cron": ("works", 0, {"cron_expression": "*/2 * * * * *"}, {}),
    "chaos:gpu": ("works", 8, {"every": "2s"}, {"require": ["gpu"]}),
    "chaos:fails": ("fails", 5, None, {"max_retries": 1}),
    "chaos:mends": ("fails once", 8, {"every": "2s"}, {}),
    "chaos:hangs": ("hangs once", 1, None, {"timeout": "2s"}),
    "chaos:once": ("works", 8, {"every": "1s"}, {"max_retries": 0, "max_losses": 0}),
    "chaos:acme": ("works", 8, {"every": "1s"}, {"tenant": "acme"}),
    "chaos:single": ("works", 2, {"every": "2s"}, {"max_concurrent": 1}),
    "chaos:pair": ("fails once", 3, None, {"max_concurrent": 2, "max_queue_depth": 20}),
    "chaos:group-a": ("works", 4, {"every": "2s"}, {"concurrency_group": GROUP}),
    "chaos:group-b": ("works", 3, None, {"concurrency_group": GROUP, "max_concurrent": 2}),
    "chaos:skip": ("works", 0, {"every": "1s"}, {"overlap": "skip"}),
    "chaos:latest": ("works", 0, {"every": "1s"}, {"catch_up": "latest"}),
}
LIMITS = {"chaos:single": 1, "chaos:pair": 2, "chaos:skip": 1, "chaos:group-b": 2}
WANTS_EVERY_FIRE = [name for name, (_, _, schedule, rules) in JOBS.items() if schedule and "overlap" not in rules]
WANTS_EVERY_FIRE.remove("chaos:latest")


def make_jobs(api: httpx.Client, not_after: str) -> None:
    """All jobs and their schedules, whose last fire is at ``not_after`` or before."""
    answer = api.put(f"/v1/concurrency-groups/{GROUP}", json={"max_concurrent": GROUP_LIMIT})
    assert answer.status_code == 201, answer.text
    for name, (plan, _, schedule, rules) in JOBS.items():
        defaults = {"lease": LEASE, "retry": RETRY, "max_queue_depth": DEEP, "catch_up": "all", "max_catch_up": 1000}
        metadata = {"plan": plan, "most_ms": "300"}
        answer = api.post("/v1/jobs", json={"job_key": name, "metadata": metadata, **defaults, **rules})
        assert answer.status_code == 201, answer.text
        if schedule is not None:
            answer = api.post("/v1/schedules", json={"job_key": name, "not_after": not_after, **schedule})
            assert answer.status_code == 201, answer.text


class Producers:
    """Make ``most`` runs within ``seconds``, or as soon as they can be made. ``answers``: the run of each key."""

    def __init__(self, clients: list[httpx.Client], most: int, seconds: float, seed: int) -> None:
        self.clients, self.most, self.seconds, self.seed = clients, most, seconds, seed
        self.answers: dict[str, str] = {}
        self.said: Counter[str] = Counter()
        self._numbers = itertools.count()
        self._stop = threading.Event()
        self._workers: list[Future[None]] = []

    def start(self, workers: int = 6) -> None:
        began_at = time.monotonic()
        self._workers = [in_thread(self._work, began_at) for _ in range(workers)]

    def stop(self) -> None:
        self._stop.set()
        for worker in self._workers:
            worker.exception(60)

    @property
    def are_done(self) -> bool:
        """True once all is made; what went wrong in one of them is raised."""
        for worker in self._workers:
            if worker.done():
                worker.result(0)
        return all(worker.done() for worker in self._workers)

    def _work(self, began_at: float) -> None:
        while not self._stop.is_set() and (number := next(self._numbers)) < self.most:
            self._stop.wait(max(0.0, began_at + self.seconds * number / self.most - time.monotonic()))
            random = Random(f"{self.seed} {number}")
            (job_key,) = random.choices(list(JOBS), [share for _, share, _, _ in JOBS.values()])
            key = f"chaos-{number}"
            first = self._trigger(job_key, key, random)
            if first is None:
                return
            self.answers[key] = first
            if random.random() < 0.1:
                again = self._trigger(job_key, key, random)
                assert again in (None, first), f"the key {key} stands for {first} and for {again}"

    def _trigger(self, job_key: str, key: str, random: Random) -> str | None:
        while not self._stop.is_set():
            try:
                answer = random.choice(self.clients).post(
                    "/v1/trigger", json={"job_key": job_key, "idempotency_key": key}
                )
            except httpx.TransportError:
                self.said["no answer"] += 1
                self._stop.wait(0.2)
                continue
            self.said[str(answer.status_code)] += 1
            if answer.status_code == 200:
                body = answer.json()
                self.said["deduplicated"] += body["deduplicated"]
                return body["execution_id"]
            # 503: the database's fault or a stop; 429: the queue of the job is full, and no key is kept.
            assert answer.status_code in (429, 503), answer.text
            self._stop.wait(0.5)
        return None
