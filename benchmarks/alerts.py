"""Claims while alerts are written and sent to a receiver that hangs, that fails, and that takes them (issue 8).

    python -m benchmarks.alerts [--seconds 10]

On a durable PostgreSQL that is started for it: eight clients claim and complete as fast as they can, first without a
rule, then while two reapers' threads send what waits over three channels, of which one hangs and one answers 500, and
then to receivers that all take it; each with a rule of every kind. Exits 1 where a claim's p99 is over twice the quiet
one's and 10 ms, an alert was delivered twice, the dead channels were tried more often than their steps allow, or not
all that the third channel was to get was delivered meanwhile.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from multiprocessing.synchronize import Event

from benchmarks.backlog import make_holders, make_jobs, make_waiting
from benchmarks.claims import CLIENTS, now, shipped, together
from benchmarks.gauge import Report, durable_postgres, machine, percentile, sql, tidy

SENDERS = 2
WAITING = 400_000
CAUSES = 500
STEPS = 3
"""So often a channel that does not answer is tried again in the first minute: after 10 s, 20 s more, 40 s more."""
NOISE, LEAST_MS = 2.0, 10.0
REAPS_EVERY = 5.0
PATIENCE_SECONDS = 120
"""With senders that have the machine for themselves, for what they did not get done beside the claims."""


def send(stop: Event) -> None:
    """What a reaper does about alerts, its chore and its thread, until it is told to stop."""
    from croniq_site.kernel.stop import StopToken
    from scheduler.services.alerts import transports
    from scheduler.services.alerts.watch import watch
    from scheduler.workers.alerter import AlertThread

    transports.SECONDS_MOST = 2.0
    with AlertThread(StopToken()):
        while not stop.is_set():
            watch(now())
            stop.wait(REAPS_EVERY)


def make_rules(urls: list[str]) -> None:
    from runners.services.audit import SYSTEM
    from scheduler.models import AlertRule
    from scheduler.services.alerts.definitions import create_channel, save_rule

    for number, url in enumerate(urls):
        create_channel({"name": f"to-{number}", "kind": "webhook", "target": url}, now(), SYSTEM, "default")
    names = [f"to-{number}" for number in range(len(urls))]
    fields = {"overran": {"expected_within": "1s"}, "dead_letters": {}, "missed": {"grace": "10s"}, "failed": {}}
    for kind in AlertRule.Kind.values:
        said = {"name": kind, "kind": kind, "channels": names, **fields.get(kind, {})}
        save_rule(said, now(), SYSTEM, "default")


def make_causes(count: int) -> None:
    """Alerts that wait, as so many failed runs leave them."""
    from croniq_site.kernel.ids import uuid7
    from scheduler.services.alerts.causes import FailedRun, tell_of_failures

    at = now()
    tell_of_failures([FailedRun(uuid7(at), at, f"a:{n}", "default", "exit", "exit code 3") for n in range(count)], at)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    report = Report()
    with durable_postgres() as server:
        from django.db import connections

        from tests.support.receivers import webhook

        report.line(f"PostgreSQL {server.version}; {machine()}")
        make_jobs(now())
        make_waiting(WAITING, now())
        holders = make_holders(CLIENTS, now())
        tidy("scheduler_run", "scheduler_queueentry")
        quiet = together(shipped(holders, 1), options.seconds)
        report.line(f"no rule: {quiet}")
        with webhook() as hangs, webhook() as fails, webhook() as takes:
            hangs.status, fails.status = 0, 500
            make_rules([hangs.url, fails.url, takes.url])
            figures, dead = {}, {}
            context = multiprocessing.get_context("fork")
            for name, status in (("hang, answer 500, take them", None), ("take them all", 204)):
                if status is not None:
                    dead = {"hangs": len(hangs.ids), "answers 500": len(fails.ids)}
                    served = len(set(takes.ids))
                    hangs.status = fails.status = status
                    sql("UPDATE scheduler_alertchannel SET failures = 0, closed_until = NULL")
                    sql("UPDATE scheduler_alert SET next_at = now() WHERE state = 'waiting'")
                make_causes(CAUSES)
                stop = context.Event()
                connections.close_all()
                senders = [context.Process(target=send, args=(stop,)) for _ in range(SENDERS)]
                for sender in senders:
                    sender.start()
                figures[name] = together(shipped(holders, 1), options.seconds)
                end = time.monotonic() + PATIENCE_SECONDS
                while len(set(takes.ids)) < CAUSES and time.monotonic() < end:
                    stop.wait(0.1)
                stop.set()
                for sender in senders:
                    sender.join(60)
                report.line(f"receivers {name}: {figures[name]}")
                states = dict(sql("SELECT state, count(*) FROM scheduler_alert GROUP BY state"))
                report.line(f"  alerts by state: {states}")
            taken = Counter(hangs.ids) + Counter(fails.ids) + Counter(takes.ids)
            delivered = {
                (str(pk), attempt)
                for pk, attempt in sql("SELECT id, attempt FROM scheduler_alert WHERE state = 'delivered'")
            }
            report.line(f"delivered: {len(delivered)}, in all {sum(taken.values())} requests")
        most = max(LEAST_MS, NOISE * percentile(quiet.claims, 0.99))
        for name, busy in figures.items():
            report.gate(f"claim p99 while receivers {name}, ms", percentile(busy.claims, 0.99), most=most)
        for name, attempts in dead.items():
            report.gate(f"attempts over a channel that {name}", attempts, most=SENDERS + STEPS)
        report.gate("alerts that the third channel got meanwhile", served, least=CAUSES)
        twice = sum(1 for pk, attempt in delivered if taken[pk] > attempt)
        report.gate("alerts with more requests than attempts", twice, most=0)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
