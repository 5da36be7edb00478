"""Tables as an installation has them after a while: finished runs, waiting runs, made by the database itself."""

# ruff: noqa: S608 - our own texts
from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from benchmarks.gauge import sql

TENANTS, ROUTES, PRIORITIES = 20, 4, 3
JOBS_PER_LANE = 10

# A version 7 uuid of an instant, as `kernel.ids` makes them: rows that are made together lie together.
UUID7 = (
    "(lpad(to_hex((extract(epoch FROM {at}) * 1000)::bigint), 12, '0') || '7' || "
    "substr(md5({n}::text), 1, 3) || '8' || substr(md5('x' || {n}::text), 1, 15))::uuid"
)


def make_jobs(
    now: datetime, tenants: int = TENANTS, routes: int = ROUTES, priorities: int = PRIORITIES, jobs: int = JOBS_PER_LANE
) -> list[int]:
    """Make lanes, and jobs in each; return the ids of the lanes."""
    from scheduler.models import Job, Lane
    from scheduler.services.lanes import route_of

    lanes = Lane.objects.bulk_create(
        [
            Lane(
                tenant=f"tenant-{tenant}",
                route=route_of([f"capability-{route}"], []),
                require=[f"capability-{route}"],
                prefer=[],
                priority=priority,
            )
            for priority in range(priorities)
            for tenant in range(tenants)
            for route in range(routes)
        ]
    )
    Job.objects.bulk_create(
        [
            Job(
                job_key=f"bench:{lane.pk}-{n}",
                tenant=lane.tenant,
                lane=lane,
                priority=lane.priority,
                created_at=now,
                updated_at=now,
            )
            for lane in lanes
            for n in range(jobs)
        ],
        batch_size=2000,
    )
    return [lane.pk for lane in lanes]


def make_history(number: int, now: datetime) -> None:
    """Runs that completed in the 90 days before ``now``, in the order of time; by far the most in any table."""
    if not number:
        return
    rebuild = [text for (text,) in sql(f"SELECT indexdef FROM pg_indexes WHERE {_SECONDARY}")]
    for (name,) in sql(f"SELECT indexname FROM pg_indexes WHERE {_SECONDARY}"):
        sql(f"DROP INDEX {name}")
    jobs = sql("SELECT count(*) FROM scheduler_job")[0][0]
    sql("SET session_replication_role = replica")  # no look-up of each row's job: they are all there
    sql("SET synchronous_commit = off")
    at = f"(%s::timestamptz - interval '90 days' + (n / {jobs}) * interval '90 days' / ({number} / {jobs} + 1))"
    sql(
        "INSERT INTO scheduler_run (id, job_id, kind, scheduled_for, occurrence_at, created_at, attempt, verdict, "
        "reason, error, runner_id, claimed_at, finished_at, duration_ms) "
        f"SELECT {UUID7.format(at='at', n='n')}, j.ids[1 + mod(n, {jobs})], 'scheduled', at, at, at, 1, 'completed', "
        "'', '', 'runner-of-old', at, at + interval '5 ms', 5 "
        f"FROM (SELECT n, {at} AS at FROM generate_series(1, {number}) AS n) h, "
        "(SELECT array_agg(id ORDER BY id) AS ids FROM scheduler_job) j",
        [now],
    )
    sql("SET session_replication_role = DEFAULT")
    sql("SET synchronous_commit = on")
    sql("SET maintenance_work_mem = '512MB'")
    for text in rebuild:
        sql(text)


_SECONDARY = "tablename = 'scheduler_run' AND indexname NOT LIKE '%_pkey'"


def make_waiting(
    number: int,
    now: datetime,
    *,
    due: timedelta = timedelta(hours=-1),
    step: timedelta = timedelta(milliseconds=1),
    lanes: Sequence[int] | None = None,
    state: int = 0,
    seed: str = "w",
) -> None:
    """Waiting runs of the jobs in ``lanes`` (all), dealt out in turn; the first is due at ``now + due``."""
    sql("SET synchronous_commit = off")
    sql(
        f"""
        WITH jobs AS (
            SELECT array_agg(id ORDER BY id) AS ids, array_agg(lane_id ORDER BY id) AS lanes, count(*) AS number
            FROM scheduler_job WHERE %s::bigint[] IS NULL OR lane_id = ANY (%s::bigint[])
        ), fires AS (
            SELECT n, ids[1 + n %% number] AS job_id, lanes[1 + n %% number] AS lane_id,
                %s::timestamptz + n * %s::interval AS at, {UUID7.format(at="%s::timestamptz", n="('%s' || n)")} AS id
            FROM jobs, generate_series(0, %s - 1) AS n
        ), runs AS (
            INSERT INTO scheduler_run (id, job_id, kind, scheduled_for, occurrence_at, created_at, attempt, reason,
                error, runner_id)
            SELECT id, job_id, 'triggered', at, at, at, 0, '', '', '' FROM fires ORDER BY n
        )
        INSERT INTO scheduler_queueentry (run_id, job_id, lane_id, own_lane, state, available_at, attempt,
            max_attempts, losses, max_losses, lease_seconds, timeout_seconds, log_bytes)
        SELECT id, job_id, lane_id, false, %s, at, 0, 4, 0, 2, 60, 300, 0 FROM fires ORDER BY n
        """.replace("('%s' || n)", f"('{seed}' || n)"),
        [lanes and list(lanes), lanes and list(lanes), now + due, step, now, number, state],
    )
    sql("SET synchronous_commit = on")


def drop_waiting() -> None:
    """Take what waits or runs away again, with its runs."""
    sql("CREATE TEMPORARY TABLE gone AS SELECT run_id FROM scheduler_queueentry")
    sql("TRUNCATE scheduler_queueentry")
    sql("SET session_replication_role = replica")
    sql("DELETE FROM scheduler_run r USING gone g WHERE r.id = g.run_id")
    sql("SET session_replication_role = DEFAULT")
    sql("DROP TABLE gone")


def make_holders(number: int, now: datetime) -> list[tuple[str, int]]:
    """Return (runner_id, id of its instance) of new runners."""
    from runners.models import ApiClient, Runner, RunnerInstance

    client, _ = ApiClient.objects.get_or_create(name="bench", defaults={"scopes": ["admin"], "created_at": now})
    first = Runner.objects.count()
    runners = Runner.objects.bulk_create(
        [
            Runner(runner_id=f"runner-{n}", client=client, created_at=now, last_poll_at=now)
            for n in range(first, first + number)
        ]
    )
    instances = RunnerInstance.objects.bulk_create(
        [RunnerInstance(runner=runner, instance_id="1", first_seen_at=now, last_poll_at=now) for runner in runners]
    )
    return [(runner.runner_id, instance.pk) for runner, instance in zip(runners, instances, strict=True)]
