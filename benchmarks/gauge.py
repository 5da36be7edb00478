"""What the database benchmarks share: a durable PostgreSQL with our schema, seconds of cores, gates and their table."""

# ruff: noqa: T201
from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.postgres import DURABLE, Server, private_postgres


def use_database(url: str) -> None:
    """Set Django up on this database and make our tables there."""
    os.environ["DATABASE_URL"] = url
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


@contextlib.contextmanager
def durable_postgres(settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A PostgreSQL of its own that commits to the disk, with our tables, as Django's database."""
    with private_postgres(reuse=False, settings={**DURABLE, **(settings or {})}) as server:
        use_database(server.url)
        yield server


def sql(text: str, parameters: Sequence[object] = ()) -> list[tuple]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(text, parameters or None)
        return cursor.fetchall() if cursor.description else []


def tidy(*tables: str) -> None:
    """Vacuum and analyze these tables and begin a checkpoint's time anew: every measurement starts from there."""
    for table in tables:
        sql(f"VACUUM ANALYZE {table}")
    sql("CHECKPOINT")


def core_seconds_of_postgres() -> float:
    """Seconds of cores that the server and its processes have used, those that ended included (Linux; sessions of this
    machine over a Unix socket)."""
    ((master,),) = sql("SELECT pg_read_file('postmaster.pid')")
    pid = int(master.split()[0])
    ticks = 0
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                if int(place.name) == pid:
                    ticks += sum(map(int, fields[11:15]))  # with those of its children that it has buried
                elif int(fields[1]) == pid:
                    ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


@dataclass
class Report:
    """Figures with their gates, printed as they come; `close` says which were missed."""

    missed: list[str] = field(default_factory=list)

    def line(self, text: str) -> None:
        print(text, flush=True)

    def gate(self, name: str, value: float, *, least: float | None = None, most: float | None = None) -> None:
        is_met = (least is None or value >= least) and (most is None or value <= most)
        bound = f">= {least:,g}" if least is not None else f"<= {most:,g}"
        shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        self.line(f"{'ok    ' if is_met else 'MISSED'} {name}: {shown} (gate {bound})")
        if not is_met:
            self.missed.append(f"{name}: {shown}, gate {bound}")

    def close(self) -> int:
        self.line(machine())
        for text in self.missed:
            self.line(f"missed: {text}")
        return 1 if self.missed else 0
