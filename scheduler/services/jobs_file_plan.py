"""What applying a jobs file would do to the tenant as it is. Writes nothing and locks nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from calendars.domain.rules import CalendarSpec
from calendars.queries.specs import calendar_spec
from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.suggestions import did_you_mean
from runners.services.file_managed import FILE
from scheduler.domain.jobs_file import Declared, DeclaredJob, problems_of
from scheduler.domain.jobs_file_plan import (
    ADD,
    ADOPT,
    CHANGE,
    REMOVE,
    Change,
    FieldChange,
    Left,
    MovedFire,
    Plan,
    TriggerChange,
    differences,
)
from scheduler.domain.jobs_file_written import calendar_written, job_written, trigger_written
from scheduler.domain.trigger_fields import NEW, trigger_columns
from scheduler.domain.words import describe
from scheduler.domain.yaml_text import Mark, Problem
from scheduler.models import Job, Trigger
from scheduler.queries.fires import schedule_of, trigger_fires
from scheduler.queries.job_fires import skipped_ahead
from scheduler.queries.jobs_file import (
    Existing,
    calendar_values_of,
    existing,
    is_group_busy,
    job_columns_of,
    trigger_columns_of,
    unfinished_counts,
)
from scheduler.queries.runners import online_capabilities
from scheduler.services.jobs_file_check import CheckedFile, lacking_capabilities, odd_capabilities, strange_references
from scheduler.services.triggers import refuse_never_firing

_UNADOPTED = "it is managed by {!r}; 'manage.py jobs adopt {}' or --adopt lets the file have the say"
_OPTION = {"job": "{}", "calendar": "--calendar {}", "group": "--group {}"}


@dataclass(frozen=True, slots=True)
class TriggerStep:
    """One trigger of a job: what is declared (None: it goes), the row (None: it is new), and the row as it would be."""

    declared: Declared | None
    row: Trigger | None
    wanted: Trigger | None
    calendar: CalendarSpec | None
    changes: tuple[FieldChange, ...]

    @property
    def action(self) -> str:
        if self.declared is None:
            return REMOVE
        if self.row is None:
            return ADD
        return CHANGE if self.changes else ""


@dataclass(frozen=True, slots=True)
class JobStep:
    declared: DeclaredJob
    row: Job | None
    fields: tuple[FieldChange, ...]
    triggers: tuple[TriggerStep, ...]

    @property
    def differs(self) -> bool:
        return self.row is None or bool(self.fields) or any(step.action for step in self.triggers)


@dataclass(slots=True)
class Planned:
    """The plan, with what carrying it out needs: what there was, and the steps of all declared jobs."""

    plan: Plan
    found: Existing
    steps: dict[str, JobStep] = field(default_factory=dict)


def plan_jobs_file(checked: CheckedFile, now: datetime, *, prune: bool = False, adopt: bool = False) -> Planned:
    """Compare the file with the tenant. ``prune``: what was declared once and is not any more goes. ``adopt``: what the
    file declares and others manage becomes the file's; else such a thing is an error if it differs. Of a file that has
    errors the plan has those alone.
    """
    planner = _Planner(checked, now, adopt)
    if checked.file.errors:
        return Planned(Plan(checked.file.tenant, problems=tuple(planner.problems)), planner.found)
    return planner.plan(prune)


class _Planner:
    def __init__(self, checked: CheckedFile, now: datetime, adopt: bool) -> None:
        self.checked, self.file, self.now, self.adopt = checked, checked.file, now, adopt
        self.found = existing(self.file.tenant, self.file.jobs.keys())
        self.specs: dict[str, CalendarSpec | None] = {}
        self.changes: list[Change] = []
        self.unowned: list[Left] = []
        self.unlisted: list[Left] = []
        offered = {name for has in online_capabilities(self.file.tenant, now) for name in has}
        self.problems = [
            *self.file.problems,
            *strange_references(checked, calendars=self.found.calendars, groups=self.found.groups),
            *odd_capabilities(checked, offered),
            *lacking_capabilities(checked, offered),
        ]

    def plan(self, prune: bool) -> Planned:
        for name, declared in self.file.calendars.items():
            self._calendar(name, declared)
        for name, declared in self.file.groups.items():
            self._group(name, declared)
        steps = {key: self._job(job) for key, job in self.file.jobs.items()}
        removed = self._unlisted_jobs(prune)
        self._unlisted_rest(prune, removed)
        sound = not any(not problem.is_warning for problem in self.problems)
        plan = Plan(
            self.file.tenant,
            tuple(self.changes),
            tuple(self._moved(steps, removed)) if sound else (),
            tuple(self.unlisted),
            tuple(self.unowned),
            tuple(self.problems),
        )
        return Planned(plan, self.found, steps)

    def _rows(self, job: Job) -> list[Trigger]:
        return self.found.triggers_of(job)

    def _calendar(self, name: str, declared: Declared) -> None:
        row = self.found.calendars.get(name)
        wanted = self.checked.calendars[name]
        is_same = row is not None and calendar_values_of(row) == wanted
        before = calendar_written(**calendar_values_of(row)) if row is not None else {}
        fields = () if is_same else tuple(differences(before, calendar_written(**wanted)))
        self._declared("calendar", name, declared.mark, row, not is_same, fields)

    def _group(self, name: str, declared: Declared) -> None:
        row = self.found.groups.get(name)
        before = {} if row is None else {"max_concurrent": row.max_concurrent}
        fields = tuple(differences(before, {"max_concurrent": declared.fields["max_concurrent"]}))
        self._declared("group", name, declared.mark, row, bool(fields), fields)

    def _job(self, declared: DeclaredJob) -> JobStep:
        row = self.found.jobs.get(declared.key)
        before = job_columns_of(row) if row is not None else None
        if before is None:
            fields = tuple(differences({}, job_written(declared.columns)))
        else:
            fields = tuple(differences(job_written(before, whole=True), job_written(declared.columns, whole=True)))
        # Of a row that has no triggers yet the job is made up, to know its fires.
        job = row if row is not None else Job(job_key=declared.key, tenant=self.file.tenant)
        step = JobStep(declared, row, fields, tuple(self._triggers(declared, job, row)))
        triggers = tuple(_trigger_change(one) for one in step.triggers if one.action)
        if declared.key in self.found.foreign:
            whose = f"of the tenant {self.found.foreign[declared.key]!r}; a key is one job's, of all tenants"
            self.problems.append(
                Problem(declared.mark, f"jobs.{declared.key}", f"There is a job of this key, {whose}.")
            )
            return step
        self._declared("job", declared.key, declared.mark, row, step.differs, fields, triggers, self._run_note(step))
        return step

    def _run_note(self, step: JobStep) -> str:
        return "runs once: run_on_change" if step.declared.runs_on_change and step.declared.columns["is_active"] else ""

    def _declared(
        self,
        kind: str,
        name: str,
        mark: Mark,
        row: Any,
        differs: bool,
        fields: tuple[FieldChange, ...],
        triggers: tuple[TriggerChange, ...] = (),
        note: str = "",
    ) -> None:
        """Note what becomes of one declared object: it is new, changed, the file's from now on, or as it is."""
        is_strange = row is not None and row.managed_by != FILE
        if is_strange and not self.adopt:
            reason = _UNADOPTED.format(row.managed_by, _OPTION[kind].format(name))
            if differs:
                message = f"The {kind} {name!r} is not as it is declared here, and {reason}."
                self.problems.append(Problem(mark, f"{kind}s.{name}", message))
            else:
                self.unowned.append(Left(kind, name, reason))
        elif row is None:
            self.changes.append(Change(kind, name, ADD, fields, triggers, note))
        elif differs:
            adopted = f"managed by {row.managed_by!r} until now" if is_strange else ""
            self.changes.append(
                Change(kind, name, CHANGE, fields, triggers, "; ".join(text for text in (adopted, note) if text))
            )
        elif is_strange:
            self.changes.append(Change(kind, name, ADOPT, note=f"managed by {row.managed_by!r} until now"))

    def _triggers(self, declared: DeclaredJob, job: Job, row: Job | None) -> Iterator[TriggerStep]:
        rows = list(self._rows(row)) if row is not None else []
        pairs: dict[str, Trigger] = {}
        # Those that are there already, then those of the same kind, then any: what is edited keeps its id.
        for is_it in (self._is_same, self._is_same_kind, lambda *_: True):
            for one in declared.triggers:
                found = None if one.name in pairs else next((old for old in rows if is_it(job, one, old)), None)
                if found is not None:
                    pairs[one.name] = found
                    rows.remove(found)
        for one in declared.triggers:
            yield self._trigger_step(job, one, pairs.get(one.name))
        for old in rows:
            yield TriggerStep(None, old, None, None, ())

    def _columns(self, job: Job, declared: Declared, row: Trigger | None) -> dict[str, Any]:
        """As `save_trigger` would have them: all that is not said has its default, but the anchor stays."""
        before = NEW if row is None else NEW | {"anchor_at": row.anchor_at}
        zone = settings.CRONIQ_TIME_ZONE
        return trigger_columns(declared.fields, before=before, job_key=job.job_key, default_zone=zone, now=self.now)

    def _is_same(self, job: Job, declared: Declared, row: Trigger) -> bool:
        calendar = row.calendar.name if row.calendar is not None else None
        is_there = (declared.fields.get("calendar") or None) == calendar
        return is_there and self._columns(job, declared, row) == trigger_columns_of(row)

    def _is_same_kind(self, job: Job, declared: Declared, row: Trigger) -> bool:
        return self._columns(job, declared, row)["kind"] == row.kind

    def _trigger_step(self, job: Job, declared: Declared, row: Trigger | None) -> TriggerStep:
        columns = self._columns(job, declared, row)
        calendar = declared.fields.get("calendar") or None
        after = trigger_written(columns, calendar)
        before: dict[str, Any] = {}
        if row is not None:
            before = trigger_written(trigger_columns_of(row), row.calendar.name if row.calendar is not None else None)
        if "anchor" not in declared.fields:  # nobody chose it
            after.pop("anchor", None)
            before.pop("anchor", None)
        changes = tuple(differences(before, after))
        created_at = row.created_at if row is not None else self.now
        wanted = Trigger(job=job, created_at=created_at, cursor_at=self.now, updated_at=self.now, **columns)
        step = TriggerStep(declared, row, wanted, self._spec(calendar), changes)
        if row is None or (changes and wanted.enabled):
            try:
                refuse_never_firing(wanted, self.now, step.calendar)
            except InvalidInput as refused:
                path = f"jobs.{job.job_key}.triggers.{declared.name}"
                self.problems += problems_of(declared.node, path, refused)
        return step

    def _spec(self, name: str | None) -> CalendarSpec | None:
        """The rules of a calendar as they would be; None where there is none."""
        if name is None:
            return None
        if name not in self.specs:
            row = self.found.calendars.get(name)
            declared = self.checked.spec(name)
            self.specs[name] = declared if declared is not None or row is None else calendar_spec(row)
        return self.specs[name]

    def _unlisted_jobs(self, prune: bool) -> list[Job]:
        gone = [job for key, job in self.found.jobs.items() if key not in self.file.jobs and job.managed_by == FILE]
        new = [change.name for change in self.changes if change.kind == "job" and change.action == ADD]
        for job in gone:
            if prune:
                claimed, waiting = unfinished_counts(job)
                note = f"{claimed} claimed runs finish, {waiting} that wait or are planned go"
                self.changes.append(Change("job", job.job_key, REMOVE, note=note))
            else:
                like = did_you_mean(job.job_key, new).replace("Did you mean", "Is it now")
                self.unlisted.append(Left("job", job.job_key, f"it stays as it is; --prune removes it.{like}"))
        return gone if prune else []

    def _unlisted_rest(self, prune: bool, removed: list[Job]) -> None:
        """Calendars and groups that the file does not declare any more; those that are used stay in any case."""
        staying = [job for job in self.found.jobs.values() if job not in removed]
        for name, calendar in self.found.calendars.items():
            if calendar.managed_by == FILE and name not in self.file.calendars:
                users = [job.job_key for job in staying if self._uses(job, name)]
                self._left("calendar", name, prune, f"{users[0]} uses it" if users else "")
        for name, group in self.found.groups.items():
            if group.managed_by == FILE and name not in self.file.groups:
                users = [job.job_key for job in staying if self._group_of(job) == name]
                reason = f"{users[0]} is limited by it" if users else ""
                if not users and prune and is_group_busy(group, [job.pk for job in staying]):
                    reason = "runs that it limits are not over"
                self._left("group", name, prune, reason)

    def _left(self, kind: str, name: str, prune: bool, reason: str) -> None:
        if prune and not reason:
            self.changes.append(Change(kind, name, REMOVE))
        else:
            self.unlisted.append(Left(kind, name, f"it stays: {reason}." if reason else "--prune removes it."))

    def _uses(self, job: Job, calendar: str) -> bool:
        declared = self.file.jobs.get(job.job_key)
        if declared is None:
            return any(one.calendar is not None and one.calendar.name == calendar for one in self._rows(job))
        return any(one.fields.get("calendar") == calendar for one in declared.triggers)

    def _group_of(self, job: Job) -> str | None:
        declared = self.file.jobs.get(job.job_key)
        if declared is not None:
            return declared.columns["concurrency_group"]
        return job.concurrency_group.name if job.concurrency_group is not None else None

    def _moved(self, steps: dict[str, JobStep], removed: Sequence[Job]) -> Iterator[MovedFire]:
        """The jobs whose next fire is not what it was, by key."""
        calendars = {change.name for change in self.changes if change.kind == "calendar"}
        users = {job.job_key for name in calendars for job in self.found.users_of(name)}
        touched = {change.name for change in self.changes if change.kind == "job"} | users
        gone = {job.job_key for job in removed}
        skipped = skipped_ahead([self.found.jobs[key].pk for key in touched & self.found.jobs.keys()], self.now)
        for key in sorted(touched):
            row, step = self.found.jobs.get(key), steps.get(key)
            left_out = skipped.get(row.pk, set()) if row is not None else set()
            before = after = None
            if row is not None and row.is_active:
                before = _next([(one, None) for one in self._rows(row)], self.now, left_out)
            if step is not None and step.declared.columns["is_active"]:
                wanted = [(one.wanted, one.calendar) for one in step.triggers if one.wanted is not None]
                after = _next(wanted, self.now, left_out)
            elif step is None and key not in gone and row is not None and row.is_active:
                rows = self._rows(row)
                after = _next(
                    [(one, self._spec(one.calendar and one.calendar.name)) for one in rows], self.now, left_out
                )
            if before != after:
                yield MovedFire(key, before, after)


def _next(
    triggers: Sequence[tuple[Trigger, CalendarSpec | None]], now: datetime, skipped: set[datetime]
) -> datetime | None:
    """The first fire of all of them that is not taken out. A trigger that is broken gives none, as to whoever plans."""
    found = []
    for trigger, calendar in triggers:
        if trigger.enabled:
            try:
                fires = trigger_fires(trigger, after=now, count=len(skipped) + 1, calendar=calendar)
            except DatabaseError:
                raise
            except Exception:
                fires = []
            found += [fire.at for fire in fires if fire.at not in skipped][:1]
    return min(found, default=None)


def _trigger_change(step: TriggerStep) -> TriggerChange:
    shown = step.wanted if step.wanted is not None else step.row
    try:
        schedule = describe(schedule_of(shown))
    except InvalidInput as broken:
        schedule = broken.message
    return TriggerChange(step.action, step.changes, schedule)
