"""Croniq and its peers in one run and in the peers' harness: the same PostgreSQL, the same job that leaves a mark.

    python -m benchmarks.peers --harness FOLDER --perf FOLDER [--only graphile,pgqueuer] [--rounds 2]

``--harness`` holds `peer_*.py`, `pg.sh` and what they share; ``--perf`` an environment with the peers in `venv` and
`node` (the harness's README says how), and takes the cluster and its results. Ours is `serve` with its defaults and two
runner processes over keep-alive HTTP, 100 runs a poll, as each peer has its fast settings. Exits 1 where a gate of
issue 5 is missed.
"""

# ruff: noqa: T201, TID251 - it measures clocks, and waits as the harness does
from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bed import ROOT, Bed, machine, percentile, seed

RUNNERS, BATCH, SAMPLES = 2, 100, 150
DATABASE = "croniq"
PEERS: dict[str, tuple[list[str], int, float]] = {
    # the harness's command, jobs, what our rate must be a multiple of
    "graphile": (["peer_node.py", "graphile"], 200_000, 0.7),
    "pgqueuer": (["peer_pgqueuer.py"], 200_000, 0.0),
    "pgboss": (["peer_node.py", "pgboss"], 200_000, 0.0),
    "celery": (["peer_celery.py"], 20_000, 8.0),
    "apscheduler": (["peer_apscheduler.py"], 3_000, 8.0),
    "procrastinate": (["peer_procrastinate.py"], 20_000, 12.0),
    "django-q2": (["peer_django.py", "q2"], 20_000, 12.0),
    "django-tasks": (["peer_django.py", "tasks"], 5_000, 12.0),
    "rq": (["peer_rq.py"], 20_000, 12.0),
}
KINDS = {"django-q2": "q2", "django-tasks": "tasks"}


def runner(host: str, port: str, key: str, number: str, log: str) -> None:
    """One runner process: poll, leave a mark for each run, say that all of them are done."""
    connection = http.client.HTTPConnection(host, int(port))
    head = {"authorization": f"ApiKey {key}", "content-type": "application/json"}
    marks = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    me = f"peer-{number}"

    def post(path: str, body: Any) -> Any:
        connection.request("POST", path, json.dumps(body), head)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {text[:200]!r}")
        return json.loads(text)

    while True:
        work = post("/v1/work/poll", {"runner_id": me, "instance_id": "i", "max_inflight": BATCH})["work"]
        for run in work:
            asked = float(run["metadata"].get("ts", 0))
            os.write(marks, struct.pack("dd", time.time(), asked))
        if work:
            post(
                "/v1/work/ack",
                [
                    {
                        "runner_id": me,
                        "execution_id": run["execution_id"],
                        "status": "success",
                        "attempt": run["attempt"],
                    }
                    for run in work
                ],
            )


def marks_of(log: Path) -> list[tuple[float, float]]:
    return list(struct.iter_unpack("dd", log.read_bytes())) if log.exists() else []


def until(done: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit("Croniq did not come to an end in time")
        time.sleep(0.02)


def croniq(perf: Path, jobs: int) -> dict[str, float]:
    """Let Croniq do ``jobs`` runs, then one at a time; return ``done_s`` and the latencies in ms."""
    log = perf / "croniq.log"
    log.unlink(missing_ok=True)
    made = Bed(f"postgres://postgres@127.0.0.1:{os.environ['PGPORT']}/{DATABASE}", None)
    made.environment = {"DATABASE_URL": made.url, "CRONIQ_DATA_DIR": str(perf), "CRONIQ_HTTPS": "0"}
    os.environ |= made.environment
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    seed(made)
    made.fill(jobs)
    with made.serve() as (_, url):
        host, port = url.removeprefix("http://").split(":")
        words = [sys.executable, "-m", "benchmarks.peers", "runner", host, port, made.key]
        runners = [subprocess.Popen([*words, str(n), str(log)], cwd=ROOT) for n in range(RUNNERS)]
        try:
            until(lambda: made.scalar("SELECT count(*) FROM scheduler_queueentry") == 0, 120)
            ended = time.time()
            began = min(at for at, _ in marks_of(log))
            time.sleep(1.5)
            log.write_bytes(b"")
            api = http.client.HTTPConnection(host, int(port))
            head = {"authorization": f"ApiKey {made.key}", "content-type": "application/json"}
            for _ in range(SAMPLES):
                time.sleep(random.uniform(0.04, 0.12))  # noqa: S311
                asked = time.time()
                body = {"job_key": made.job_keys[0], "metadata": {"ts": asked}}
                api.request("POST", "/v1/trigger", json.dumps(body), head)
                api.getresponse().read()
            until(lambda: len(marks_of(log)) >= SAMPLES, 10)
        finally:
            for process in runners:
                process.kill()
                process.wait()
    waits = [(at - asked) * 1e3 for at, asked in marks_of(log) if asked]
    return {
        "done_s": jobs / (ended - began),
        "lat_p50": percentile(waits, 0.5),
        "lat_p99": percentile(waits, 0.99),
    }


def peer(name: str, harness: Path, perf: Path) -> dict[str, float]:
    """Run one peer by its script; return what that wrote down."""
    words, jobs, _ = PEERS[name]
    results = perf / "results.jsonl"
    before = results.stat().st_size if results.exists() else 0
    environment = {
        **os.environ,
        "PEER_N": str(jobs),
        "PEER_L": str(SAMPLES),
        "NODE_MODS": str(perf / "node/node_modules"),
    }
    if name in KINDS:
        environment["DJ_KIND"] = KINDS[name]
    for croniqs in ("DJANGO_SETTINGS_MODULE", "DATABASE_URL"):
        environment.pop(croniqs, None)
    output = (perf / "peer.out").open("ab")
    subprocess.run(
        [str(perf / "venv/bin/python"), *words],
        cwd=harness,
        env=environment,
        stdout=output,
        stderr=output,
        timeout=400,
        check=True,
    )
    with results.open() as file:
        file.seek(before)
        lines = [json.loads(line) for line in file.read().splitlines()]
    last = next(line for line in reversed(lines) if "jobs_s" in line)  # some write a second one, of latency alone
    return {
        "done_s": last.get("done_s") or last["jobs_s"],
        "lat_p50": last["lat_p50"] or 0.0,
        "lat_p99": last["lat_p99"] or 0.0,
    }


def cluster(harness: Path, perf: Path) -> None:
    if not (perf / "pg/data").exists():
        subprocess.run([harness / "pg.sh", "init"], check=True)
    answers = subprocess.run([harness / "pg.sh", "psql", "-qc", "SELECT"], check=False, capture_output=True)
    if answers.returncode:
        subprocess.run([harness / "pg.sh", "start"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        [
            harness / "pg.sh",
            "psql",
            "-qc",
            f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)",
            "-c",
            f"CREATE DATABASE {DATABASE}",
        ],
        check=True,
    )
    subprocess.run([harness / "pg.sh", "psql", "-qc", "CREATE DATABASE bench"], check=False, stderr=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harness", type=Path, required=True)
    parser.add_argument("--perf", type=Path, required=True)
    parser.add_argument("--only", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=2, help="of ours, before and after each group of peers")
    parser.add_argument("--jobs", type=int, default=200_000)
    options = parser.parse_args()
    harness, perf = options.harness.resolve(), options.perf.resolve()
    os.environ |= {"PERF": str(perf), "PGPORT": os.environ.get("PGPORT", "55432")}
    print(machine(), flush=True)
    ours, theirs = [], {}
    names = options.only.split(",")
    for turn, name in enumerate(names):
        if turn % max(1, -(-len(names) // options.rounds)) == 0:
            cluster(harness, perf)
            ours.append(_in_a_process(perf, options.jobs))
            print(f"{'croniq':14} {_line(ours[-1])}", flush=True)
        theirs[name] = peer(name, harness, perf)
        print(f"{name:14} {_line(theirs[name])}", flush=True)
    rate = median(one["done_s"] for one in ours)
    print(f"\nto Croniq's {rate:,.0f} done/s")
    missed = 0
    for name, found in theirs.items():
        least, ratio = PEERS[name][2], rate / found["done_s"]
        is_missed = bool(least) and ratio < least
        missed += is_missed
        gate = f" (gate {least:g})" if least else ""
        print(f"  {name:14} {ratio:6.2f} times{gate}{'  MISSED' if is_missed else ''}")
    print(machine())
    return int(missed > 0)


def _in_a_process(perf: Path, jobs: int) -> dict[str, float]:
    """Ours in a process of its own: Django knows one database for good, and each round has a fresh one."""
    words = [sys.executable, "-m", "benchmarks.peers", "croniq", str(perf), str(jobs)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _line(found: dict[str, float]) -> str:
    return f"{found['done_s']:9,.0f} done/s, one job p50 {found['lat_p50']:6.1f} p99 {found['lat_p99']:6.1f} ms"


if __name__ == "__main__":
    if sys.argv[1:2] == ["runner"]:
        runner(*sys.argv[2:])
    elif sys.argv[1:2] == ["croniq"]:
        print(json.dumps(croniq(Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        sys.exit(main())
