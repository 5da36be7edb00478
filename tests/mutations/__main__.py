"""Prove the mutation records: python -m tests.mutations [NAME…] (see docs/mutations.md)."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.docs import PAGE, write_page
from tests.mutations.harness import BaselineError, Environments, Harness
from tests.mutations.record import DATABASES, Mutation, duplicate_names, load_records
from tests.mutations.verdict import OK, Verdict

ROOT = Path(__file__).resolve().parents[2]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="records to prove (all, unless --quick)")
    parser.add_argument("--quick", action="store_true", help="only the records marked quick")
    parser.add_argument("--named", action="store_true", help="run the named tests only, not the whole fast tier")
    parser.add_argument("--list", action="store_true", help="list the records and end")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="records at a time, two processes each")
    parser.add_argument("--database", choices=(*DATABASES, "both"), default="both")
    parser.add_argument("--time-limit", type=float, metavar="S", help="seconds a run may take (3 × the baseline)")
    parser.add_argument("--write-docs", action="store_true", help=f"rewrite the table of {PAGE} and end")
    options = parser.parse_args(arguments)
    if options.jobs < 1 or (options.time_limit is not None and not options.time_limit > 0):
        parser.error("--jobs and --time-limit must be greater than 0")
    return options


def chosen(records: Sequence[Mutation], options: argparse.Namespace) -> list[Mutation]:
    """Pick what the options ask for. Raises ValueError for an unknown name or an empty choice."""
    unknown = set(options.names) - {record.name for record in records}
    if unknown:
        raise ValueError(f"There is no record named {', '.join(sorted(unknown))}; --list names them all.")
    picked = [r for r in records if (not options.names or r.name in options.names) and (r.quick or not options.quick)]
    if options.database != "both":
        picked = [r for r in picked if options.database in r.databases]
    if not picked:
        raise ValueError("No record fits that choice; --list names them all.")
    return picked


@contextlib.contextmanager
def environments(databases: Sequence[str]):
    """Yield how a run gets its database; start one private PostgreSQL for all runs when it is asked for."""
    with contextlib.ExitStack() as stack:
        made: dict = {}
        shared: dict[str, str] = {}
        if "postgresql" in databases:
            from tests.support.postgres import URL_VARIABLE, private_postgres

            server = stack.enter_context(private_postgres())
            # The suite makes a database of its own on it (its name holds the process number).
            shared = {URL_VARIABLE: server.url}
            made["postgresql"] = lambda number: {"DATABASE_URL": server.url, **shared}
        if "sqlite" in databases:
            made["sqlite"] = lambda number: shared  # the settings' own default, in the copy's data folder
        yield made


def prove(records: Sequence[Mutation], options: argparse.Namespace, made: Environments) -> list[Verdict]:
    with Harness(
        ROOT, made, jobs=options.jobs, limit_seconds=options.time_limit, only_named=options.named, say=say
    ) as harness:
        return harness.prove(records)


def report(verdicts: Sequence[Verdict]) -> None:
    width = max(len(verdict.name) for verdict in verdicts)
    say(f"\n{'record':{width}}  verdict  seconds  other reds")
    for verdict in verdicts:
        say(f"{verdict.name:{width}}  {verdict.status:7}  {verdict.seconds:7.0f}  {len(verdict.other_reds):10}")
        for line in verdict.details:
            say(f"    {line}")
        for test in verdict.other_reds[:5]:
            say(f"    also red: {test}")
        if verdict.tail:
            say("    " + verdict.tail.rstrip().replace("\n", "\n    "))
    bad = [verdict.name for verdict in verdicts if verdict.status != OK]
    say(f"\n{len(verdicts) - len(bad)} of {len(verdicts)} records proved" + (f"; not: {', '.join(bad)}" if bad else ""))


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when all chosen records are proved, 1 when one is not, 2 when the question could not be asked."""
    options = parse(arguments)
    areas = load_records()
    records = [record for area in areas.values() for record in area]
    if doubled := duplicate_names(records):
        say(f"Two records are named {', '.join(doubled)}.")
        return 2
    if options.write_docs:
        write_page(ROOT, areas)
        return 0
    try:
        picked = chosen(records, options)
    except ValueError as error:
        say(str(error))
        return 2
    if options.list:
        for record in picked:
            say(f"{record.name}{' (quick)' if record.quick else ''}: {record.mechanism}")
        return 0
    began = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell starts what it puts in the background deaf to Ctrl-C, and so would all tests be.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with environments(DATABASES if options.database == "both" else (options.database,)) as made:
            verdicts = prove(picked, options, made)
    except BaselineError as error:
        say(f"The suite is not green without a mutation; nothing was proved.\n{error}")
        return 2
    except KeyboardInterrupt:
        say("Interrupted; nothing is left running.")
        return 130
    report(verdicts)
    say(f"{time.monotonic() - began:.0f} s")
    return 0 if all(verdict.status == OK for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
