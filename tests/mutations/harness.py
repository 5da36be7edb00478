"""Carry out records: baseline first, then each in its own scratch copies, the databases side by side."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutations.record import Mutation, RecordError, mutated_texts, problems
from tests.mutations.scratch import copy_tree, tree_files
from tests.mutations.suite import FAST, NAMED, SuiteRun, SuiteRunner, joined
from tests.mutations.verdict import ERROR, Verdict, judge, not_green

LEAST_LIMIT_SECONDS = 120.0
BASELINE_FACTOR = 3.0

Environments = Mapping[str, Callable[[int], Mapping[str, str]]]
"""Database → the environment of a run on it, given a number that no other run of this invocation has."""


class BaselineError(Exception):
    """The suite is not green without any mutation, so nothing can be learned from its being red with one."""


@dataclass(frozen=True)
class Baseline:
    """The unmutated suite on each database, and how long a mutated run may take."""

    runs: Mapping[str, SuiteRun]
    fast_limit_seconds: float
    realtime_limit_seconds: float


@dataclass
class Harness:
    """Runs the suite of the tree at `root` in copies under a temporary folder that ends with the context.

    `files` are the paths that make up the tree (None: ask git). `limit_seconds` replaces the limit that the baseline
    gives. `only_named` runs the tests that the records name instead of the whole fast tier: the same verdict from
    seconds instead of minutes, without the other reds. Nothing in `root` is written.
    """

    root: Path
    environments: Environments
    jobs: int = 1
    limit_seconds: float | None = None
    only_named: bool = False
    files: Sequence[str] | None = None
    say: Callable[[str], None] = lambda line: None
    runner: SuiteRunner = field(default_factory=SuiteRunner)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _scratch: tempfile.TemporaryDirectory | None = None

    def __enter__(self) -> Harness:
        # A short name: Unix sockets are made below it, and their paths are limited to 107 bytes.
        self._scratch = tempfile.TemporaryDirectory(prefix="cqm-", ignore_cleanup_errors=True)
        # Open to others: a PostgreSQL that a test starts as another user has to reach its folder.
        Path(self._scratch.name).chmod(0o755)
        if self.files is None:
            self.files = tree_files(self.root)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.runner.stop()
        assert self._scratch is not None
        self._scratch.cleanup()

    def prove(self, records: Sequence[Mutation]) -> list[Verdict]:
        """Judge every record, in the order given. Raises BaselineError when the suite is red without a mutation."""
        broken = {r.name: found for r in records if (found := problems(r, self.root))}
        able = [r for r in records if r.name not in broken]
        baseline = self.baseline(able) if able else None
        with ThreadPoolExecutor(self.jobs) as pool, self._stopped_when_interrupted():
            return list(pool.map(lambda record: self._verdict(record, broken.get(record.name), baseline), records))

    def baseline(self, records: Sequence[Mutation]) -> Baseline:
        """Run the unmutated suite on each database, with all the realtime tests that the records name."""
        tests = self._tests(records)
        what = "the named tests" if self.only_named else "the whole fast tier"
        self.say(f"baseline: {what} on {' and '.join(self.environments)}")
        limit = self.limit_seconds or float("inf")
        parts = self._on_each_database({}, "", *tests, limit, limit)
        runs = {database: joined(*part) for database, part in parts.items()}
        for database, run in runs.items():
            if not run.is_green:
                found = run.reds() or run.collect_errors or run.foreign or ("pytest did not come to its end",)
                raise BaselineError(f"{database}: {', '.join(found)}\n{run.tail}")
            self.say(f"baseline: {database} is green, {len(run.outcomes)} tests in {run.seconds:.0f} s")

        def limit_of(part: int) -> float:
            slowest = max((both[part].seconds for both in parts.values() if both[part]), default=0.0)
            return self.limit_seconds or max(LEAST_LIMIT_SECONDS, BASELINE_FACTOR * self.jobs * slowest)

        return Baseline(runs, limit_of(0), limit_of(1))

    def _verdict(self, record: Mutation, broken: list[str] | None, baseline: Baseline | None) -> Verdict:
        if broken:
            verdict = Verdict(record.name, ERROR, tuple(broken))
        elif unproven := not_green(record, baseline.runs):
            verdict = Verdict(record.name, ERROR, tuple(unproven))
        else:
            try:
                verdict = self.carry_out(record, baseline)
            except (RecordError, OSError) as error:  # one record that cannot be done does not end the others
                verdict = Verdict(record.name, ERROR, (str(error),))
        self.say(f"{verdict.status:7}{record.name} ({verdict.seconds:.0f} s)")
        return verdict

    def carry_out(self, record: Mutation, baseline: Baseline) -> Verdict:
        """Apply one record, run the suites and judge them. Raises RecordError when it cannot be applied."""
        parts = self._on_each_database(
            mutated_texts(record, self.root),
            record.name,
            *self._tests([record]),
            baseline.fast_limit_seconds,
            baseline.realtime_limit_seconds,
        )
        return judge(record, {database: joined(*part) for database, part in parts.items()})

    def _tests(self, records: Sequence[Mutation]) -> tuple[Sequence[str], Sequence[str]]:
        """Give pytest's arguments for the first run, and the realtime tests for the second one."""
        if self.only_named:
            return (*NAMED, *sorted({test for record in records for test in record.named})), ()
        return FAST, sorted({test for record in records for test in record.realtime})

    def _on_each_database(
        self,
        changed: Mapping[str, str],
        name: str,
        first: Sequence[str],
        realtime: Sequence[str],
        fast_limit_seconds: float,
        realtime_limit_seconds: float,
    ) -> dict[str, tuple[SuiteRun, SuiteRun | None]]:
        """Run pytest with `first` (the fast tier), then the named realtime tests, in one copy a database."""

        def run(database: str) -> tuple[SuiteRun, SuiteRun | None]:
            number = next(self._numbers)
            home = Path(self._scratch.name) / str(number)
            copy_tree(self.root, self.files, home / "tree", changed)
            environment = {"CRONIQ_MUTATION": name, **self.environments[database](number)}

            def start(part: str, arguments: Sequence[str], limit: float) -> SuiteRun:
                limit = min(limit, 24 * 3600.0)
                return self.runner.run(home / "tree", home / part, environment, arguments, limit)

            fast = start("f", first, fast_limit_seconds)
            if not realtime or fast.timed_out or fast.finished is None:
                return fast, None
            return fast, start("r", (*NAMED, *realtime), realtime_limit_seconds)

        with ThreadPoolExecutor(len(self.environments)) as pool, self._stopped_when_interrupted():
            return dict(zip(self.environments, pool.map(run, self.environments), strict=True))

    @contextlib.contextmanager
    def _stopped_when_interrupted(self) -> Iterator[None]:
        """Kill the runs before a pool is left: leaving it waits for its threads, and they wait for the runs."""
        try:
            yield
        except KeyboardInterrupt:
            self.runner.stop()
            raise
