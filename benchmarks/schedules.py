"""How fast the schedule engine is, beside croniter and cronsim, in one run.

    python -m benchmarks.schedules [folder with cronsim]

croniter is a dependency; cronsim is installed for this alone: `pip install --target FOLDER cronsim`. Two questions: the
next fire of a thousand crontab lines in forty zones, each from its text; and all fires of the next hour of many
triggers, which is what the materializer asks.
"""

# ruff: noqa: T201, S311, SIM905
from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from croniter import croniter

from calendars.domain.zones import load_zone
from scheduler.domain import cron, cron_days, window
from scheduler.domain.schedules import CronSchedule, next_after
from scheduler.domain.window import fires_in_window

NOW = datetime(2026, 11, 29, 12, 34, 56, tzinfo=UTC)
ZONES = """UTC Europe/Berlin Europe/Vienna Europe/London Europe/Paris Europe/Madrid Europe/Rome Europe/Zurich
Europe/Stockholm Europe/Warsaw Europe/Athens Europe/Istanbul Europe/Moscow Africa/Cairo Africa/Lagos Africa/Nairobi
Africa/Johannesburg Africa/Casablanca Asia/Dubai Asia/Karachi Asia/Kolkata Asia/Kathmandu Asia/Dhaka Asia/Bangkok
Asia/Shanghai Asia/Hong_Kong Asia/Tokyo Asia/Seoul Australia/Sydney Australia/Lord_Howe Pacific/Auckland
Pacific/Honolulu America/Anchorage America/Los_Angeles America/Denver America/Chicago America/New_York
America/Halifax America/Sao_Paulo America/Santiago""".split()
ROUNDS = 5


def crontab_lines(number: int, seed: int = 7) -> list[str]:
    """Lines as crontabs have them: mostly daily and hourly ones at odd minutes, steps, working hours, some rare."""
    pick = random.Random(seed)
    shapes: list[tuple[int, Callable[[], str]]] = [
        (25, lambda: f"{pick.randrange(60)} {pick.randrange(24)} * * *"),
        (15, lambda: f"{pick.randrange(60)} * * * *"),
        (15, lambda: f"*/{pick.choice([1, 2, 5, 10, 15, 20, 30])} * * * *"),
        (10, lambda: f"{pick.randrange(60)} {pick.randrange(24)} * * {pick.randrange(7)}"),
        (10, lambda: f"{pick.randrange(60)} {pick.randrange(24)} * * 1-5"),
        (8, lambda: f"{pick.randrange(60)} {pick.randrange(24)} {pick.randrange(1, 29)} * *"),
        (6, lambda: f"*/{pick.choice([5, 10, 15])} {pick.randrange(6, 10)}-{pick.randrange(16, 22)} * * 1-5"),
        (5, lambda: f"{pick.randrange(60)} */{pick.choice([2, 3, 4, 6, 12])} * * *"),
        (3, lambda: f"{pick.randrange(60)} {pick.randrange(24)} 1 */3 *"),
        (3, lambda: f"{pick.randrange(30)},{pick.randrange(30, 60)} {pick.randrange(24)} * * *"),
    ]
    weights = [weight for weight, _ in shapes]
    return [pick.choices(shapes, weights)[0][1]() for _ in range(number)]


def forget() -> None:
    """Take back what was parsed, so that a round begins with texts. Zones stay, as in a process that runs."""
    cron.parse_cron.cache_clear()
    cron._days_of.cache_clear()
    cron_days.times_of_day.cache_clear()
    window._remembered.cache_clear()


def best_of(rounds: int, what: Callable[[], object], before: Callable[[], None] = lambda: None) -> float:
    """The median of the seconds that it takes."""
    found = []
    for _ in range(rounds):
        before()
        begin = time.perf_counter()
        what()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def next_of_each(CronSim: type) -> None:
    lines = [(line, ZONES[k % len(ZONES)]) for k, line in enumerate(crontab_lines(1000))]
    local = {zone: NOW.astimezone(load_zone(zone).info) for zone in ZONES}
    ours = best_of(ROUNDS, lambda: [next_after(CronSchedule(line, zone), NOW) for line, zone in lines], forget)
    schedules = [CronSchedule(line, zone) for line, zone in lines]
    parsed = best_of(ROUNDS, lambda: [next_after(schedule, NOW) for schedule in schedules])
    peer = best_of(ROUNDS, lambda: [croniter(line, local[zone]).get_next(datetime) for line, zone in lines])
    sim = best_of(ROUNDS, lambda: [next(CronSim(line, local[zone])) for line, zone in lines])
    print("next fire of 1,000 crontab lines in 40 zones, µs a line, from the text")
    print(f"  croniq {ours * 1e3:.1f} (parsed before: {parsed * 1e3:.1f})")
    print(f"  croniter {peer * 1e3:.1f}, cronsim {sim * 1e3:.1f}")
    print(f"  croniter / croniq {peer / ours:.1f}, croniq / cronsim {ours / sim:.2f}")
    answers = [next_after(schedule, NOW) for schedule in schedules]
    theirs = [next(CronSim(line, local[zone])).astimezone(UTC) for line, zone in lines]
    print(f"  the same answer as cronsim: {sum(a == b for a, b in zip(answers, theirs, strict=True))} of 1,000")


def an_hour_of_many(CronSim: type, number: int = 20_000) -> None:
    distinct = [(line, ZONES[k % 3]) for k, line in enumerate(crontab_lines(120, seed=8))]
    asked = [distinct[k % len(distinct)] for k in range(number)]
    schedules = [CronSchedule(line, zone) for line, zone in asked]
    until = NOW + timedelta(hours=1)
    local = {zone: NOW.astimezone(load_zone(zone).info) for zone in ZONES}

    def ours() -> int:
        return sum(len(found) for found in fires_in_window(schedules, NOW, until))

    def theirs() -> int:
        total = 0
        for line, zone in asked:
            for at in CronSim(line, local[zone]):
                if at > until:
                    break
                total += 1
        return total

    if ours() != theirs():
        raise AssertionError(f"{ours()} fires, not {theirs()}")
    mine, sim = best_of(ROUNDS, ours, forget), best_of(1, theirs)
    print(f"all fires of the next hour, {number:,} triggers of 120 lines in 3 zones ({ours():,} fires), µs a trigger")
    print(f"  croniq {mine / number * 1e6:.2f}, cronsim {sim / number * 1e6:.1f}, cronsim / croniq {sim / mine:.0f}")


def main() -> None:
    sys.path += sys.argv[1:]
    from cronsim import CronSim

    next_of_each(CronSim)
    an_hour_of_many(CronSim)


if __name__ == "__main__":
    main()
