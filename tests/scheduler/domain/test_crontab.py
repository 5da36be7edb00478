"""Reading crontabs: which lines are jobs, what each of them is, and why the others are not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from calendars.domain.errors import InvalidField
from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.crontab import (
    MOST_BYTES,
    MOST_JOBS,
    MOST_VARIABLES,
    Entry,
    assignment_of,
    parse_crontab,
    split_at_percent,
)
from scheduler.domain.crontab_jobs import RunnerAccount, file_prefix, jobs_of, slug_of
from scheduler.domain.schedules import CronSchedule, fires

DEBIAN = Path(__file__).parent.parent / "cases" / "crontabs" / "debian"
ROOT, DAEMON = RunnerAccount("root"), RunnerAccount("daemon")


def entries(text: str, *, system: bool = False) -> list[Entry]:
    crontab = parse_crontab(text.encode(), system=system)
    assert crontab.refused == ()
    return list(crontab.entries)


def reason(line: str, *, system: bool = False) -> str:
    crontab = parse_crontab(line.encode(), system=system)
    assert crontab.entries == ()
    (refused,) = crontab.refused
    assert (refused.number, refused.line) == (1, line)
    return refused.reason


def action(text: str, account: RunnerAccount = DAEMON, *, system: bool = False) -> dict:
    jobs, refused = jobs_of(
        parse_crontab(text.encode(), system=system), prefix="crontab", source="crontab", account=account
    )
    assert refused == []
    return dict(jobs[-1].action)


# Debian's own. The instants are those of the lines' own words, from Saturday 28 February 2026 12:00 UTC on.


FIRES = {
    "crontab": [
        ("17 * * * *", "02-28 12:17"),
        ("25 6 * * *", "03-01 06:25"),
        ("47 6 * * 7", "03-01 06:47"),
        ("52 6 1 * *", "03-01 06:52"),
    ],
    "amavisd-new": [("18 */3 * * *", "02-28 12:18"), ("24 1 * * *", "03-01 01:24")],
    "anacron": [("30 7-23 * * *", "02-28 12:30")],
    "atop": [("0 0 * * *", "03-01 00:00")],
    "awstats": [("*/10 * * * *", "02-28 12:10"), ("10 03 * * *", "03-01 03:10")],
    "backupninja": [("0 * * * *", "02-28 13:00")],
    "cacti": [("*/5 * * * *", "02-28 12:05")],
    "certbot": [("0 */12 * * *", "03-01 00:00")],
    "cron-apt": [("0 4 * * *", "03-01 04:00")],
    "dma": [("*/5 * * * *", "02-28 12:05")],
    "e2scrub_all": [("30 3 * * 0", "03-01 03:30"), ("10 3 * * *", "03-01 03:10")],
    "ganeti": [("*/5 * * * *", "02-28 12:05"), ("45 1 * * *", "03-01 01:45"), ("45 2 * * *", "03-01 02:45")],
    "inn2": [("15 4 * * *", "03-01 04:15"), ("2 3 * * *", "03-01 03:02"), ("10 * * * *", "02-28 12:10")],
    "logcheck": [("2 * * * *", "02-28 12:02")],
    "mailman3": [("0 8 * * *", "03-01 08:00"), ("0 12 * * *", "03-01 12:00")],
    "mdadm": [("57 0 * * 0", "03-01 00:57")],
    "mlmmj": [("0 */2 * * *", "02-28 14:00")],
    "munin": [
        ("*/5 * * * *", "02-28 12:05"),
        ("14 10 * * *", "03-01 10:14"),
        ("27 03 * * *", "03-01 03:27"),
        ("32 03 * * *", "03-01 03:32"),
    ],
    "munin-node": [("*/5 * * * *", "02-28 12:05")],
    "ntpsec": [("25 6 * * *", "03-01 06:25")],
    "php": [("09,39 * * * *", "02-28 12:09")],
    "roundcube-core": [("0 5 * * *", "03-01 05:00"), ("5,35 * * * *", "02-28 12:05")],
    "rsnapshot": [],
    "sanoid": [("*/15 * * * *", "02-28 12:15")],
    "sysstat": [("5-55/10 * * * *", "02-28 12:05"), ("59 23 * * *", "02-28 23:59")],
    "tiger": [("0 * * * *", "02-28 13:00")],
}
AT_BOOT = {"ganeti", "logcheck"}


@pytest.mark.parametrize("name", sorted(path.name for path in DEBIAN.iterdir()))
def test_what_debian_ships_is_taken_and_fires_when_cron_would(name: str) -> None:
    crontab = parse_crontab((DEBIAN / name).read_bytes(), system=True)
    after = datetime(2026, 2, 28, 12, 0, tzinfo=UTC)
    found = []
    for entry in crontab.entries:
        (fire,) = fires(CronSchedule(entry.expression), after=after, count=1)
        found.append((entry.expression, f"{fire.at:%m-%d %H:%M}"))
    assert found == FIRES[name]
    assert ["boot" in refused.reason for refused in crontab.refused] == [True] * (name in AT_BOOT)
    jobs, refused = jobs_of(crontab, prefix="crontab:x", source=name, account=ROOT)
    assert len(jobs) == len(crontab.entries)
    assert len({job.job_key for job in jobs}) == len(jobs)
    assert len(refused) == (name in AT_BOOT)


def test_the_commands_of_debian_are_what_cron_gives_to_the_shell() -> None:
    (mdadm,) = parse_crontab((DEBIAN / "mdadm").read_bytes(), system=True).entries
    assert mdadm.user == "root"
    assert mdadm.command == (
        "if [ -x /usr/share/mdadm/checkarray ] && [ $(date +%d) -le 7 ]; "
        "then /usr/share/mdadm/checkarray --cron --all --idle --quiet; fi"
    )
    (tiger,) = parse_crontab((DEBIAN / "tiger").read_bytes(), system=True).entries
    assert tiger.environment == {"DEFAULT": "/etc/default/tiger", "NICETIGER": "10"}
    (sysstat, _) = parse_crontab((DEBIAN / "sysstat").read_bytes(), system=True).entries
    assert sysstat.environment == {"PATH": "/usr/lib/sysstat:/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin"}


# Lines.


def test_blank_lines_and_comments_are_no_jobs_whatever_their_encoding() -> None:
    crontab = parse_crontab(b"\n  \t\n# a\n \t# caf\xe9\n", system=False)
    assert (crontab.entries, crontab.refused, crontab.notes) == ((), (), ())


def test_fields_are_apart_by_blanks_and_the_command_is_the_rest() -> None:
    (entry,) = entries(" \t17\t *  1-5,7 jan-MAR\tmon \t echo  'a  b' # no comment  \n")
    assert entry.expression == "17 * 1-5,7 jan-MAR mon"
    assert entry.command == "echo  'a  b' # no comment  "
    assert entry.number == 1


def test_names_stand_for_schedules() -> None:
    names = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@Daily"]
    assert [e.expression for e in entries("".join(f"{n}\tx\n" for n in names))] == [n.lower() for n in names]


def test_a_line_number_counts_every_line() -> None:
    assert [e.number for e in entries("# a\n\n* * * * * b\nX=1\n* * * * * c")] == [3, 5]


def test_variables_hold_for_the_lines_below_them() -> None:
    first, second, third = entries("* * * * * a\nA=1\nB = 'x y '\n* * * * * b\nA=2\n* * * * * c")
    assert first.environment == {}
    assert second.environment == {"A": "1", "B": "x y "}
    assert third.environment == {"A": "2", "B": "x y "}


@pytest.mark.parametrize(
    ("line", "assignment"),
    [
        ("A=b c ", ("A", "b c")),
        ("A  =\tb", ("A", "b")),
        ("A=", ("A", "")),
        ('A=""', ("A", "")),
        ("A=' b '  ", ("A", " b ")),
        ("\"A\"='$HOME'", ("A", "$HOME")),
        ("A=b=c", ("A", "b=c")),
        ("A=it's", ("A", "it's")),
        ("A='b' c", None),
        ("A='b", None),
        ("A b=c", None),
        ("=b", None),
        ("* * * * * A=b c", None),
        ("@daily A=b c", None),
    ],
)
def test_what_sets_a_variable(line: str, assignment: tuple[str, str] | None) -> None:
    assert assignment_of(line) == assignment


@pytest.mark.parametrize("name", ["MAILTO", "MAILFROM", "LOGNAME", "CONTENT_TYPE", "RANDOM_DELAY"])
def test_variables_of_cron_alone_are_ignored_with_a_note(name: str) -> None:
    crontab = parse_crontab(f"{name}=x\n* * * * * a\n".encode(), system=False)
    assert crontab.entries[0].environment == {}
    assert [(note.number, name in note.reason) for note in crontab.notes] == [(1, True)]
    assert crontab.refused == ()


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        (r"date +\%d", "date +%d", None),
        ("mail joe%Joe,%%Where?%", "mail joe", "Joe,\n\nWhere?\n"),
        ("cat%a", "cat", "a\n"),
        (r"cat%10\% of\a%b", "cat", "10% of\\a\nb\n"),
        ("cat%", "cat", None),
        ("cat%%", "cat", "\n"),
        (r"a\\%b", r"a\%b", None),
        ("a\\", "a\\", None),
        (r"sed 's/\(.*\)/\1/'", r"sed 's/\(.*\)/\1/'", None),
    ],
)
def test_percent_signs(text: str, command: str, stdin: str | None) -> None:
    assert split_at_percent(text) == (command, stdin)
    if command.strip():
        (entry,) = entries(f"* * * * * {text}")
        assert (entry.command, entry.stdin) == (command, stdin)


def test_the_minus_of_suse_is_left_out_with_a_note() -> None:
    crontab = parse_crontab(b"-*/15 * * * * root /usr/lib/cron/run-crons\n", system=True)
    assert [(e.expression, e.user, e.command) for e in crontab.entries] == [
        ("*/15 * * * *", "root", "/usr/lib/cron/run-crons")
    ]
    assert "syslog" in crontab.notes[0].reason


def test_a_step_that_crons_read_differently_is_noted() -> None:
    crontab = parse_crontab(b"5/15 * * * * a\n*/15 * * * * b\n5-59/15 * * * * c\n", system=False)
    assert len(crontab.entries) == 3
    assert [note.number for note in crontab.notes] == [1]


# Zones.


def test_zones_hold_for_the_lines_below_them() -> None:
    found = entries(
        "0 1 * * * a\nTZ=Europe/Vienna\n0 1 * * * b\nCRON_TZ = America/New_York\n0 1 * * * c\n"
        "CRON_TZ=\n0 1 * * * d\nTZ=:Asia/Tokyo\n0 1 * * * e\nTZ=''\n0 1 * * * f\n"
    )
    assert [e.timezone for e in found] == ["", "Europe/Vienna", "America/New_York", "Europe/Vienna", "Asia/Tokyo", ""]
    assert found[2].environment == {"TZ": "Europe/Vienna"}


def test_an_unknown_zone_takes_only_the_lines_below_it_along() -> None:
    crontab = parse_crontab(b"0 1 * * * a\nTZ=Europe/Berln\n0 1 * * * b\nTZ=Europe/Berlin\n0 1 * * * c\n", system=False)
    assert [e.command for e in crontab.entries] == ["a", "c"]
    assert [(r.number, "'Europe/Berlin'" in r.reason) for r in crontab.refused] == [(3, True)]


@pytest.mark.parametrize(
    ("lines", "notes"),
    [
        ("CRON_TZ=Europe/Berlin\n", ["the schedules below are in this zone"]),
        ("CRON_TZ=Europe/Berln\n", ["there is no such zone; the schedules below are not taken"]),
        ("TZ=Europe/Berln\n", ["there is no such zone; the schedules below are not taken"]),
        ("TZ=Europe/Berlin\n", ["the schedules below are in this zone, and the commands see it"]),
        (
            "CRON_TZ=UTC\nTZ=Nowhere\n",
            ["the schedules below are in this zone", "the commands see it; CRON_TZ decides about the schedules"],
        ),
    ],
)
def test_what_is_said_of_a_zone_is_what_becomes_of_the_lines_below_it(lines: str, notes: list[str]) -> None:
    assert [note.reason for note in parse_crontab(lines.encode(), system=False).notes] == notes


def test_the_zone_of_the_machine_is_that_of_lines_without_one() -> None:
    crontab = parse_crontab(b"0 1 * * * a\nCRON_TZ=Asia/Tokyo\n0 1 * * * b\n", system=False)
    jobs, _ = jobs_of(crontab, prefix="crontab", source="x", account=ROOT, timezone="Europe/Vienna")
    assert [job.timezone for job in jobs] == ["Europe/Vienna", "Asia/Tokyo"]


# What is not taken.


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("@reboot x", "boot"),
        ("@fortnightly x", "@fortnightly"),
        ("* * * *", "neither five fields"),
        ("hello world", "neither five fields"),
        ("* * * * *", "neither five fields"),
        ("* * * * * ", "no command"),
        ("* * * * * %stdin", "no command"),
        ("@daily", "no command"),
        ("60 * * * * x", "60 is not in 0-59"),
        ("* * 0 * * x", "0 is not in 1-31"),
        ("*/0 * * * * x", "above zero"),
        ("0 0 30 2 * x", "never"),
        ("22-2 * * * * x", "backwards"),
        ("0 0 * * fri-mon x", "backwards"),
        ("H * * * * x", "no value of crontab"),
        ("0 0 L * * x", "no value of crontab"),
        ("0 0 15W * * x", "no value of crontab"),
        ("0 0 ? * mon x", "no value of crontab"),
        ("0 0 * * mon#1 x", "no value of crontab"),
        ("0 0 * * 5L x", "no value of crontab"),
        ("0~30 * * * * x", "H(0-29)"),
        (f"{','.join(['1'] * 200)} * * * * x", "255 characters"),
        ("9" * 5000 + " * * * * x", "255 characters"),
        ("MY-NAME=x", "'MY-NAME' is no name"),
        ("A='x", "neither five fields"),
        ("17 * * * * root cd / && run-parts", "--system"),
    ],
)
def test_what_cron_would_not_run_is_refused_with_the_reason(line: str, says: str) -> None:
    assert says in reason(line)


def test_a_bad_line_takes_no_other_one_along() -> None:
    crontab = parse_crontab(b"* * * * * a\nrubbish\n61 * * * * b\n* * * * * c", system=False)
    assert [e.command for e in crontab.entries] == ["a", "c"]
    assert [r.number for r in crontab.refused] == [2, 3]


def test_a_system_line_has_a_user() -> None:
    (entry,) = entries("0 5 * * *\twww-data \t /bin/x  y", system=True)
    assert (entry.user, entry.command) == ("www-data", "/bin/x  y")
    assert "after the user" in reason("0 5 * * * root", system=True)
    assert "without --system" in reason("0 5 * * * /bin/x y", system=True)


def test_a_line_that_is_not_utf8_is_refused_alone() -> None:
    crontab = parse_crontab("* * * * * echo caf\u00e9\n".encode("latin-1") + b"* * * * * b\n", system=False)
    assert [e.command for e in crontab.entries] == ["b"]
    assert "UTF-8" in crontab.refused[0].reason


def test_a_byte_order_mark_and_the_lines_of_windows_are_left_out_with_a_note() -> None:
    crontab = parse_crontab("\ufeff* * * * * \u00fcber\r\n\r\n* * * * * b\r\n".encode(), system=False)
    assert [e.command for e in crontab.entries] == ["\u00fcber", "b"]
    assert len(crontab.notes) == 2


def test_a_file_that_is_no_crontab_is_refused_as_a_whole() -> None:
    for data, says in [
        (b"#" * (MOST_BYTES + 1), "1048576 bytes"),
        (b"* * * * * a\n\x7fELF\0\0", "Line 2 has a NUL"),
        (b"* * * * * a\n" * (MOST_JOBS + 1), "1000 lines"),
        (b"".join(b"A%d=1\n" % n for n in range(MOST_VARIABLES + 1)), "500 variables"),
    ]:
        with pytest.raises(InvalidField) as refused:
            parse_crontab(data, system=False)
        assert refused.value.field == "file"
        assert says in refused.value.message
    assert len(parse_crontab(b"* * * * * a\n" * MOST_JOBS, system=False).entries) == MOST_JOBS


# The jobs.


def test_a_line_is_a_command_in_its_home_with_its_variables() -> None:
    assert action("A=1\nSHELL=/bin/sh\n* * * * * x %y") == {
        "type": "command",
        "shell": "x ",
        "cwd": "~",
        "env": {"A": "1", "SHELL": "/bin/sh"},
        "stdin": "y\n",
    }


def test_another_shell_gets_the_command() -> None:
    assert action("SHELL=/bin/bash\n* * * * * x | y") == {
        "type": "command",
        "argv": ["/bin/bash", "-c", "x | y"],
        "cwd": "~",
        "env": {"SHELL": "/bin/bash"},
    }
    assert action("SHELL=\n* * * * * x")["shell"] == "x"


def test_only_a_runner_that_is_root_becomes_another_user() -> None:
    assert action("* * * * * www-data x", ROOT, system=True)["user"] == "www-data"
    assert action("* * * * * root x", ROOT, system=True)["user"] == "root"
    assert "user" not in action("* * * * * daemon x", DAEMON, system=True)
    assert "user" not in action("* * * * * x", ROOT)
    crontab = parse_crontab(b"1 * * * * root x\n2 * * * * daemon y\n3 * * * * a%\n", system=True)
    jobs, refused = jobs_of(crontab, prefix="crontab", source="x", account=DAEMON)
    assert [job.entry.command for job in jobs] == ["y"]
    assert [(r.number, "root" in r.reason) for r in refused] == [(1, True), (3, False)]


def test_a_key_says_what_runs_and_stays_when_line_schedule_and_environment_change() -> None:
    one = entries("0 5 * * * test -x /usr/bin/certbot -a ! -d /run/systemd && certbot renew >/dev/null")[0]
    two = entries("#\nA=1\n@daily test -x /usr/bin/certbot -a ! -d /run/systemd && certbot renew >/dev/null")[0]
    assert slug_of(one) == slug_of(two)
    assert slug_of(one).startswith("certbot-")
    others = ["0 5 * * * certbot renew", "0 5 * * * certbot renew%x", "0 5 * * * certbot renew%y"]
    assert len({slug_of(entries(text)[0]) for text in others}) == 3
    assert slug_of(entries("* * * * * \u00df")[0]).startswith("command-")


def test_equal_commands_are_jobs_of_their_own_in_the_order_of_their_lines() -> None:
    crontab = parse_crontab(b"1 * * * * x\n2 * * * * x\n3 * * * * y\n4 * * * * x\n", system=False)
    jobs, _ = jobs_of(crontab, prefix="crontab", source="x", account=ROOT)
    first = jobs[0].job_key
    assert [job.job_key for job in jobs if job.entry.command == "x"] == [first, f"{first}-2", f"{first}-3"]
    again, _ = jobs_of(crontab, prefix="crontab", source="x", account=ROOT)
    assert again == jobs


def test_prefixes() -> None:
    assert file_prefix("php@8.2 \u00fc") == "crontab:php-8.2"
    assert file_prefix("\u00fc") == "crontab"
    for bad in ("a:b:c", "", "a/b", "a\nb", "a:" + "x" * 250):
        with pytest.raises(InvalidInput) as refused:
            jobs_of(parse_crontab(b"", system=False), prefix=bad, source="x", account=ROOT)
        assert "prefix" in refused.value.fields
