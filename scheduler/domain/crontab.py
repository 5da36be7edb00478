"""Crontabs as crontab(5) of Debian's cron reads them: which lines are jobs, with which command, environment and zone.

Pure: what is read here is made jobs by `scheduler.services.imports`. A line that cannot be taken says why and takes no
other one along.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from calendars.domain.errors import InvalidField
from calendars.domain.zones import load_zone
from scheduler.domain.cron import MONTHS, WEEKDAYS, parse_cron
from scheduler.domain.imports import NotTaken

MOST_BYTES = 1024 * 1024
MOST_JOBS = 1000
MOST_VARIABLES = 500
FIELD = "file"

IGNORED = {
    "MAILTO": "no mail is sent; a run's output is on its page",
    "MAILFROM": "no mail is sent",
    "CONTENT_TYPE": "no mail is sent",
    "CONTENT_TRANSFER_ENCODING": "no mail is sent",
    "LOGNAME": "cron does not let a crontab set it",
    "RANDOM_DELAY": "the lines below start at their own time",
}
"""Variables that mean something to a cron and nothing here, and what to say about it."""

_BLANKS = re.compile(r"[ \t]+")
_NAME_IS = re.compile(r"""(?:(?P<q>['"])(?P<quoted>(?:(?!(?P=q))[^=])+)(?P=q)|(?P<bare>[^\s='"][^\s=]*))\s*=\s*""")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?", re.ASCII)
_ITEM = re.compile(r"(?P<low>\*|\w+)(?:-(?P<high>\w+))?(?P<step>/\d+)?", re.ASCII)
_FIELDS: tuple[tuple[str, Mapping[str, int]], ...] = (
    ("minute", {}),
    ("hour", {}),
    ("day-of-month", {}),
    ("month", MONTHS),
    ("day-of-week", WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line that is a job. ``line`` is as written, ``number`` counts from 1; ``user`` is "" in a user's crontab.

    ``timezone`` "" means the machine's. ``stdin`` None: nothing to read. ``environment``: the variables set above it.
    """

    number: int
    line: str
    expression: str
    command: str
    user: str = ""
    stdin: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """A line that could not be taken and why, or what is worth saying about one that was."""

    number: int
    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Crontab:
    entries: tuple[Entry, ...]
    refused: tuple[Remark, ...]
    notes: tuple[Remark, ...]


def parse_crontab(data: bytes, *, system: bool) -> Crontab:
    """Read a crontab; ``system``: the lines of /etc/crontab and /etc/cron.d, which name a user before the command.

    Refuses (`InvalidField` ``file``) only what is no crontab as a whole: more than 1 MiB, NUL bytes, more than 1,000
    lines to run or 500 variables.
    """
    if len(data) > MOST_BYTES:
        raise InvalidField(FIELD, f"The file has more than {MOST_BYTES} bytes; this is no crontab.")
    if (nul := data.find(b"\0")) >= 0:
        number = data.count(b"\n", 0, nul) + 1
        raise InvalidField(FIELD, f"Line {number} has a NUL byte; this is no text file.")
    reading = _Reading(system)
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
        reading.note(1, "", "the byte order mark at the file's begin is left out")
    for number, line in enumerate(data.split(b"\n"), 1):
        reading.read(number, line)
    return Crontab(tuple(reading.entries), tuple(reading.refused), tuple(reading.notes))


class _Reading:
    """What has been read so far, and the variables and the zone that hold for the lines to come."""

    def __init__(self, system: bool) -> None:
        self.system = system
        self.entries: list[Entry] = []
        self.refused: list[Remark] = []
        self.notes: list[Remark] = []
        self._environment: dict[str, str] = {}
        self._zones: dict[str, str] = {}
        self._is_windows = False

    def note(self, number: int, line: str, reason: str) -> None:
        self.notes.append(Remark(number, line, reason))

    def read(self, number: int, raw: bytes) -> None:
        if not raw.strip() or raw.lstrip(b" \t").startswith(b"#"):
            return  # whatever its encoding
        if raw.endswith(b"\r"):
            raw = raw[:-1]
            if not self._is_windows:
                self.note(number, "", "the lines end as on Windows; the carriage returns are left out")
            self._is_windows = True
        line = raw.decode("utf-8", "backslashreplace")
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            self.refused.append(Remark(number, line, "it is not UTF-8; convert the file, for example with iconv"))
            return
        try:
            self._read(number, line.lstrip(" \t"))
        except NotTaken as refused:
            self.refused.append(Remark(number, line, str(refused)))

    def _read(self, number: int, line: str) -> None:
        assignment = assignment_of(line)
        if assignment is not None:
            self._assign(number, line, *assignment)
            return
        if len(self.entries) == MOST_JOBS:
            raise InvalidField(FIELD, f"The file has more than {MOST_JOBS} lines to run; import it in parts.")
        text = line
        if text.startswith("-"):
            text = text[1:].lstrip(" \t")
            self.note(number, line, "the - before the schedule (no entry in syslog) is left out")
        expression, rest = _schedule(text)
        user = ""
        if self.system:
            user, _, rest = _BLANKS.sub(" ", rest, count=1).partition(" ")
            if not _USER.fullmatch(user):
                raise NotTaken(f"{user[:32]!r} is no user; a user's own crontab is imported without --system")
        elif rest.startswith(("root ", "root\t")):
            raise NotTaken("a user stands before the command; a system crontab is imported with --system")
        for reason in check_expression(expression):
            self.note(number, line, reason)
        command, stdin = split_at_percent(rest)
        if not command.strip():
            raise NotTaken("it has no command" + (" after the user" if self.system and user else ""))
        self.entries.append(Entry(number, line, expression, command, user, stdin, self._environment, self._zone()))

    def _assign(self, number: int, line: str, name: str, value: str) -> None:
        if name in IGNORED:
            self.note(number, line, f"{name} is ignored: {IGNORED[name]}")
            return
        if not _VARIABLE.fullmatch(name):
            raise NotTaken(f"{name[:64]!r} is no name of an environment variable")
        if name in ("CRON_TZ", "TZ"):
            self._zones[name] = value.removeprefix(":")
            self.note(number, line, self._zone_note(name))
        if name != "CRON_TZ":
            if len(self._environment) == MOST_VARIABLES and name not in self._environment:
                raise InvalidField(FIELD, f"The file sets more than {MOST_VARIABLES} variables.")
            self._environment = self._environment | {name: value}  # a new one: the entries above keep theirs

    def _zone_note(self, name: str) -> str:
        if name == "TZ" and self._zones.get("CRON_TZ"):
            return "the commands see it; CRON_TZ decides about the schedules"
        try:
            self._zone()
        except NotTaken:
            return "there is no such zone; the schedules below are not taken"
        return "the schedules below are in this zone" + ("" if name == "CRON_TZ" else ", and the commands see it")

    def _zone(self) -> str:
        """CRON_TZ decides, else TZ; an empty value is the machine's zone again."""
        name = "CRON_TZ" if self._zones.get("CRON_TZ") else "TZ"
        zone = self._zones.get(name, "")
        try:
            return load_zone(zone).name if zone else ""
        except InvalidField as refused:
            raise NotTaken(f"the zone that {name} sets above it: {refused.message}") from refused


def assignment_of(line: str) -> tuple[str, str] | None:
    """The variable that a line sets: ``NAME = value``, either in quotes or not; None if it sets none."""
    match = _NAME_IS.match(line)
    if match is None:
        return None
    name, value = match["quoted"] or match["bare"], line[match.end() :].rstrip()
    if value[:1] in ("'", '"'):
        end = value.find(value[0], 1)
        if end != len(value) - 1:
            return None
        value = value[1:-1]
    return name, value


def split_at_percent(text: str) -> tuple[str, str | None]:
    r"""The command and what it reads: the first ``%`` ends the command, later ones are new lines, ``\%`` is a ``%``.

    What is read ends with a new line, as cron makes it; None where there is no ``%`` or nothing behind it.
    """
    parts: list[list[str]] = [[]]
    escaped = False
    for character in text:
        if character == "%" and not escaped:
            parts.append([])
            continue
        # A backslash waits for what it stands before: \% is %, \\% is \%, any other keeps its backslash.
        if escaped and character != "%":
            parts[-1].append("\\")
        escaped = character == "\\"
        if not escaped:
            parts[-1].append(character)
    if escaped:
        parts[-1].append("\\")
    command, *lines = ("".join(part) for part in parts)
    if lines in ([], [""]):
        return command, None
    stdin = "\n".join(lines)
    return command, stdin if stdin.endswith("\n") else stdin + "\n"


def _schedule(text: str) -> tuple[str, str]:
    """The expression in one form and the rest of the line."""
    if text.startswith("@"):
        name, _, rest = _BLANKS.sub(" ", text, count=1).partition(" ")
        if name.lower() == "@reboot":
            raise NotTaken("a run at boot has no time; start it with the machine's services")
        return name.lower(), rest
    parts = _BLANKS.split(text, maxsplit=5)
    if len(parts) < 6:
        raise NotTaken("it is neither five fields and a command nor NAME=value")
    return " ".join(parts[:5]), parts[5]


def check_expression(expression: str) -> Iterator[str]:
    """Raise NotTaken for what cron would not run; yield what crons do not agree on."""
    try:
        parse_cron(expression)
    except InvalidField as refused:
        hint = " For a time by chance (~) write H or H(0-29) in a schedule of Croniq." if "~" in expression else ""
        raise NotTaken(refused.message + hint) from refused
    if expression.startswith("@"):
        return
    for text, (label, names) in zip(expression.split(), _FIELDS, strict=True):
        for item in text.split(","):
            match = _ITEM.fullmatch(item)
            if match is None or not _is_known(match["low"], names) or not _is_known(match["high"] or "0", names):
                raise NotTaken(f"{item[:30]!r} in the {label} field is no value of crontab(5)")
            if match["high"] is None:
                if match["step"] and match["low"] != "*":
                    yield f"crons do not agree on {item!r}; here it goes from there on to the field's end"
            elif _number(match["low"], names) > _number(match["high"], names):
                raise NotTaken(f"the range {item[:30]!r} runs backwards, and cron never runs it; write two ranges")


def _is_known(value: str, names: Mapping[str, int]) -> bool:
    return value == "*" or value.isdigit() or value.upper() in names


def _number(value: str, names: Mapping[str, int]) -> int:
    return int(value) if value.isdigit() else names[value.upper()]
