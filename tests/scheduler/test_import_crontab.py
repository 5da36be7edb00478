"""`manage.py import_crontab`: jobs are made once, say what they cannot take, and touch nobody else's."""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from calendars.domain.zones import load_zone
from croniq_site.kernel.clock import DatabaseClock
from runners.models import AuditEvent
from scheduler.domain.crontab import parse_crontab
from scheduler.domain.crontab_jobs import RunnerAccount, draft_of, jobs_of
from scheduler.models import Job, QueueEntry, Trigger
from scheduler.queries.fires import next_fires
from scheduler.queries.imports import imported_keys
from scheduler.services.imports import Source, import_jobs
from scheduler.services.jobs import deactivate
from tests.factories import RunnerFactory
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger
from tests.support.races import together

DEBIAN = Path(__file__).parent / "cases" / "crontabs" / "debian"

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("import_crontab", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def crontab(tmp_path: Path):
    def write(content: str | bytes, name: str = "crontab") -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def snapshot() -> list:
    return [
        list(Job.objects.order_by("pk").values()),
        list(Trigger.objects.order_by("pk").values()),
        list(QueueEntry.objects.order_by("pk").values()),
        AuditEvent.objects.count(),
    ]


def keys() -> list[str]:
    return list(Job.objects.order_by("job_key").values_list("job_key", flat=True))


def test_debians_own_crontab_is_imported() -> None:
    out = run(str(DEBIAN / "crontab"), "--system", "--runner-is-root", "--timezone", "Europe/Berlin")
    assert "4 lines taken (4 created, 0 changed, 0 unchanged), 0 not taken." in out
    assert "'root'" in out
    job = Job.objects.get(job_key__startswith="crontab:crontab:cron.daily-")
    assert job.action == {
        "type": "command",
        "shell": "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }",
        "cwd": "~",
        "env": {"SHELL": "/bin/sh", "PATH": "/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin"},
        "user": "root",
    }
    assert (job.timeout_seconds, job.max_retries, job.max_losses, job.catch_up) == (86_400, 0, 0, "none")
    assert (job.managed_by, job.tags, job.tenant) == ("crontab", ["crontab"], "default")
    assert job.description.startswith("crontab: test -x")
    (trigger,) = Trigger.objects.filter(job=job)
    assert (trigger.cron_expression, trigger.timezone) == ("25 6 * * *", "Europe/Berlin")
    # Berlin's clocks go forward on 28 March 2027.
    assert next_fires(trigger, datetime(2027, 3, 27, 0, 0, tzinfo=UTC), 2) == [
        datetime(2027, 3, 27, 5, 25, tzinfo=UTC),
        datetime(2027, 3, 28, 4, 25, tzinfo=UTC),
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in DEBIAN.iterdir()))
def test_all_that_debian_ships_becomes_jobs(name: str) -> None:
    lines = parse_crontab((DEBIAN / name).read_bytes(), system=True).entries
    run(str(DEBIAN / name), "--system", "--runner-is-root")
    assert sorted(Trigger.objects.values_list("cron_expression", flat=True)) == sorted(e.expression for e in lines)


def test_the_same_file_again_changes_nothing(crontab) -> None:
    file = crontab("A=1\n*/5 * * * * x\n*/5 * * * * x\n@daily y%text\nCRON_TZ=Asia/Tokyo\n0 1 * * * z\n")
    run(file)
    before = snapshot()
    out = run(file)
    assert "4 lines taken (0 created, 0 changed, 4 unchanged)" in out
    assert snapshot() == before


def test_an_edited_line_changes_its_job_and_keeps_what_was_edited_there(crontab) -> None:
    run(crontab("0 1 * * * /bin/x\n"))
    job = Job.objects.get()
    Job.objects.update(max_retries=5, description="mine")
    deactivate(job.job_key, job.created_at, ACTOR)
    out = run(crontab("# a line more\nA=1\n0 2 * * * /bin/x\n"))
    assert "1 changed" in out
    job, trigger = Job.objects.get(), Trigger.objects.get()
    assert (trigger.cron_expression, job.action["env"]) == ("0 2 * * *", {"A": "1"})
    assert (job.max_retries, job.description, job.is_active) == (5, "mine", False)


def test_a_dry_run_writes_nothing_and_shows_words_and_next_fires(crontab) -> None:
    out = run(crontab("CRON_TZ=Europe/Vienna\n30 2 * * mon-fri /bin/x\n"), "--dry-run")
    assert not Job.objects.exists()
    assert not AuditEvent.objects.exists()
    assert "would be created crontab:crontab:x-" in out
    assert "line 2: at 02:30 on Monday to Friday, Europe/Vienna" in out
    (fires,) = (line for line in out.splitlines() if " next " in line)
    assert fires.count(" 02:30 CE") == 3
    assert "1 lines would be taken (1 created" in out


def test_a_dry_run_says_as_whom_with_what_and_under_which_rules_a_line_would_run(crontab) -> None:
    line = "SECRET=hunter2\n30 2 * * * www-data /bin/x%read this\n"
    out = run(crontab(line), "--dry-run", "--system", "--runner-is-root", "--require", "db-host")
    assert "runs as www-data, in ~, with SECRET, with something to read from standard input" in out
    assert "timeout 24h, max_retries 0, catch_up none, require db-host" in out
    assert "hunter2" not in out
    assert "max_retries" not in run(crontab(line), "--system", "--runner-is-root")


def test_every_line_that_is_not_taken_is_listed_with_its_reason(crontab) -> None:
    file = crontab("MAILTO=me\n@reboot a\n* * * * * b\n61 * * * * \x1b[31mc\x07\n")
    out = run(file)
    assert "not taken  line 2: @reboot a\n           a run at boot has no time" in out
    assert "not taken  line 4: 61 * * * * \\x1b[31mc\\x07\n           61 is not in 0-59" in out
    assert "note       line 1: MAILTO=me: MAILTO is ignored" in out
    assert "1 lines taken (1 created, 0 changed, 0 unchanged), 2 not taken." in out
    with pytest.raises(CommandError, match="Not every line"):
        run(file, "--strict")


def test_nothing_taken_is_a_failure_and_nothing_to_take_is_none(crontab) -> None:
    with pytest.raises(CommandError, match="Nothing could be taken"):
        run(crontab("@reboot a\n"))
    assert "0 lines taken" in run(crontab("# nothing\n"), "--strict")


def test_users_are_honoured_only_by_a_runner_that_is_root(crontab) -> None:
    file = crontab("1 * * * * root a\n2 * * * * daemon b\n")
    out = run(file, "--system", "--as-user", "daemon")
    assert "only a runner that runs as root runs it as 'root'; this one runs as 'daemon'" in out
    assert [job.action.get("user") for job in Job.objects.all()] == [None]
    run(file, "--system", "--as-user", "root")
    assert sorted(job.action["user"] for job in Job.objects.all()) == ["daemon", "root"]


def test_a_user_that_this_machine_does_not_know_is_said_and_taken(crontab) -> None:
    out = run(crontab("1 * * * * root a\n2 * * * * nobody-here b\n"), "--system", "--runner-is-root")
    assert "note       line 2: this machine knows no user 'nobody-here'; the machine of the runner has to" in out
    assert "no user 'root'" not in out
    assert Job.objects.count() == 2


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_what_no_runner_has_is_said_as_the_api_says_it(crontab, more: list[str]) -> None:
    RunnerFactory(runner_id="web1", capabilities=["db-host"], last_poll_at=DatabaseClock().now())
    file = crontab("1 * * * * a\n")
    assert "No live runner" not in run(file, "--dry-run", "--require", "db-host", "--pin", "web1")
    out = run(file, *more, "--require", "db-host", "--require", "db-hots", "--pin", "web2")
    assert "note       No live runner has the capability 'db-hots'; its runs wait until one has." in out
    assert "note       No live runner has the capability 'runner:web2'; its runs wait until one has." in out
    assert "'db-host'" not in out


@pytest.mark.parametrize(("account", "taken"), [(0, 2), (1, 1)])
def test_the_runner_is_taken_to_run_as_whoever_imports(crontab, monkeypatch, account, taken) -> None:
    monkeypatch.setattr("os.geteuid", lambda: account)  # 1 is daemon wherever there is a Debian
    monkeypatch.setattr("pwd.getpwuid", lambda uid: type("Entry", (), {"pw_name": ["root", "daemon"][uid]}))
    run(crontab("1 * * * * root a\n2 * * * * daemon b\n"), "--system")
    assert Job.objects.count() == taken


def test_standard_input_is_a_file_too(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"@hourly /bin/x\n")))
    run("-", "--prefix", "web1", "--pin", "web1", "--require", "disk", "--require", "net")
    job = Job.objects.get()
    assert job.job_key.startswith("web1:x-")
    assert (job.pin, job.require) == ("web1", ["disk", "net"])


def test_jobs_whose_line_is_gone_are_named_and_left(crontab) -> None:
    run(crontab("@hourly a\n@daily b\n"))
    gone = imported_keys("crontab:crontab", "default", "crontab")
    out = run(crontab("@hourly a\n"))
    left = [line.split()[1] for line in out.splitlines() if line.startswith("left ")]
    assert len(left) == 1
    assert left[0] in gone
    assert Job.objects.filter(is_active=True).count() == 2
    # Those of another file, or of one that was read from standard input, are not this one's.
    assert "left " not in run(crontab("@hourly a\n", "other"))


def test_another_ones_job_is_never_touched(crontab, now) -> None:
    file = crontab("@hourly a\n@daily b\n")
    jobs, _ = jobs_of(
        parse_crontab(b"@hourly a\n", system=False), prefix="p", source="x", account=RunnerAccount("daemon")
    )
    mine = make_job(now, jobs[0].job_key, description="mine")
    make_trigger(mine, now, every="1h")
    before = Job.objects.filter(pk=mine.pk).values().get()
    out = run(file, "--prefix", "p")
    assert "managed by 'api'" in out
    assert "1 lines taken (1 created" in out
    assert Job.objects.filter(pk=mine.pk).values().get() == before
    with pytest.raises(CommandError, match="Nothing could be taken"):
        run(file, "--prefix", "p", "--tenant", "other")
    assert set(Job.objects.values_list("tenant", flat=True)) == {"default"}
    assert "2 lines taken" in run(file, "--prefix", "q", "--tenant", "other")
    assert Job.objects.filter(tenant="other").count() == 2


@pytest.mark.django_db(transaction=True)
def test_two_imports_at_once_make_each_job_and_trigger_once(now) -> None:
    lines = "".join(f"{n} * * * * x{n}\n" for n in range(10)).encode()
    jobs, _ = jobs_of(parse_crontab(lines, system=False), prefix="p", source="x", account=RunnerAccount())
    drafts, source = [draft_of(job) for job in jobs], Source("crontab", ACTOR, "default")
    outcomes = together([lambda: import_jobs(drafts, now, source)] * 2)
    assert [line.reason for result in outcomes for line in result] == [""] * 20
    assert Job.objects.count() == Trigger.objects.count() == 10


def test_a_line_that_its_service_refuses_takes_no_other_along(crontab) -> None:
    file = crontab(f"@hourly a\nB={'x' * 70_000}\n@daily b\nB=1\n@weekly c\n")
    out = run(file)
    assert "2 lines taken" in out
    assert "65536" in out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x7fELF\x02\x01\x01\0\0\0", "file: Line 1 has a NUL byte; this is no text file."),
        (b"* * * * * x\n" * 900_000, "file: The file has more than 1048576 bytes"),
        (b"* * * * * x\n" * 80_000, "file: The file has more than 1000 lines to run"),
        (b"rubbish\n" * 100_000, "Nothing could be taken."),
        (b"\xff\xfe*\x00", "file: Line 1 has a NUL byte"),
        (b"\xff\xfe\xfd", "Nothing could be taken."),
        (b"\x1b" * 1_000_000, "Nothing could be taken."),
    ],
)
def test_what_is_no_crontab_is_refused_in_a_sentence(crontab, content: bytes, says: str) -> None:
    with pytest.raises(CommandError) as refused:
        run(crontab(content))
    assert says in str(refused.value)
    assert not Job.objects.exists()


def test_lines_of_windows_and_a_last_line_without_its_end(crontab) -> None:
    assert "2 lines taken" in run(crontab(b"\xef\xbb\xbf@hourly a\r\n@daily b"))
    assert sorted(job.action["shell"] for job in Job.objects.all()) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--timezone", "Europe/Berln"], "timezone: There is no time zone 'Europe/Berln'. Did you mean"),
        (["--tenant", "No Slug"], "tenant"),
        (["--prefix", "a:b:c"], "prefix"),
    ],
)
def test_wrong_options_are_refused_by_name(crontab, arguments: list[str], says: str) -> None:
    with pytest.raises(CommandError) as refused:
        run(crontab("@hourly a\n"), *arguments)
    assert says in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in (str(tmp_path / "none"), str(tmp_path), "a\0b"):
        with pytest.raises(CommandError, match="cannot be read"):
            run(name)


def test_a_zone_of_the_file_is_the_triggers(crontab) -> None:
    run(crontab("TZ=Asia/Kolkata\n30 5 * * * a\n"), "--timezone", "UTC")
    (trigger,) = Trigger.objects.all()
    assert trigger.timezone == load_zone("Asia/Kolkata").name
    assert next_fires(trigger, trigger.created_at, 1)[0].strftime("%H:%M") == "00:00"
