"""The JSON Schema of a jobs file, for editors: made from the tables of fields that read it. Pure."""

from __future__ import annotations

from typing import Any

from calendars.domain.rules import WEEKDAYS, Effect, OnBlocked
from scheduler.domain.job_fields import CATCH_UPS, FIELDS, OVERLAPS, RETRY, STRATEGIES
from scheduler.domain.jobs_file import ASIDE, OF_JOB, OF_TRIGGER
from scheduler.domain.jobs_file_written import SECONDS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
WHOLE: Schema = {"type": "integer"}
TEXTS: Schema = {"type": "array", "items": TEXT}
INSTANT: Schema = {"type": "string", "format": "date-time"}
DURATION: Schema = {
    "description": "One number and one of s, m, h, d, such as 90s or 1.5h; or a number of seconds.",
    "anyOf": [
        {"type": "string", "pattern": r"^\s*[0-9]{1,12}(\.[0-9]{1,9})?\s*[smhd]\s*$"},
        {"type": "number", "minimum": 0},
    ],
}
_CHOICES = {"overlap": OVERLAPS, "catch_up": CATCH_UPS, "strategy": STRATEGIES}
_WITHOUT_DEFAULT: dict[str, Schema] = {"max_concurrent": WHOLE, "concurrency_group": TEXT}
_KINDS: dict[type, Schema] = {bool: FLAG, int: WHOLE, float: {"type": "number"}, str: TEXT, list: TEXTS}
_ACTION: Schema = {
    "description": "What runs: a command or an HTTP request of a runner, or (handler) code in a runner.",
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": ["handler", "command", "http"]}},
}
TRIGGER: dict[str, Schema] = {
    "cron_expression": {"description": "Five fields; six begin with seconds, seven end with a year.", **TEXT},
    "every": DURATION,
    "anchor": {"description": "Of every: it fires at anchor + k * every. Its making, if not said.", **INSTANT},
    "run_at": {"description": "It fires once.", **INSTANT},
    "timezone": TEXT,
    "calendar": {"description": "The name of a calendar, of this file or of the tenant.", **TEXT},
    "on_blocked": {"enum": [str(policy) for policy in OnBlocked]},
    "window": {
        "description": "Times of day between which it fires: 09:00-17:00.",
        "anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2}, {"type": "object"}],
    },
    "not_before": INSTANT,
    "not_after": INSTANT,
    "enabled": FLAG,
}
RULE: dict[str, Schema] = {
    "effect": {"enum": [str(effect) for effect in Effect]},
    "name": TEXT,
    "weekdays": {
        "type": "array",
        "items": {"anyOf": [{"enum": list(WEEKDAYS)}, {"type": "integer", "minimum": 1, "maximum": 7}]},
    },
    "month_days": {"type": "array", "items": {"type": "integer", "minimum": -31, "maximum": 31}},
    "yearly_dates": {"type": "array", "items": {"type": "string", "pattern": "^[0-9]{2}-[0-9]{2}$"}},
    "dates": {"type": "array", "items": {"type": "string", "format": "date"}},
    "range_start": {"type": "string", "format": "date"},
    "range_end": {"type": "string", "format": "date"},
    "window_start": {"description": "HH:MM of each day, with window_end.", **TEXT},
    "window_end": {"description": "HH:MM, not included; before window_start: over midnight.", **TEXT},
    "holiday_country": {"description": "ISO 3166, such as DE: its public holidays.", **TEXT},
    "holiday_subdivision": TEXT,
    "holiday_categories": TEXTS,
    "holiday_observed": FLAG,
}


def jobs_file_schema() -> Schema:
    """JSON Schema 2020-12. What it lets through may still be refused: it knows shapes, not zones, cron or names."""
    calendar = {"timezone": TEXT, "description": TEXT, "rules": {"type": "array", "items": _object(RULE, ["effect"])}}
    group = {"max_concurrent": {"type": "integer", "minimum": 1}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Croniq jobs file",
        "type": "object",
        "properties": {
            "tenant": TEXT,
            "calendars": _named(_object(calendar, ["timezone"], nullable={"description", "rules"})),
            "groups": _named(_object(group, ["max_concurrent"], nullable=set())),
            "jobs": _named({"anyOf": [_object(_job_properties(), []), {"type": "null"}]}),
        },
        "patternProperties": {f"^{ASIDE}": True},
        "additionalProperties": False,
    }


def _job_properties() -> dict[str, Schema]:
    properties = {name: _of_column(name, column, default) for name, (column, default, _) in FIELDS.items()}
    retry = {name: _of_column(name, column, default) for name, (column, default, _) in RETRY.items()}
    known = {
        **properties,
        "retry": _object(retry, []),
        "is_active": FLAG,
        "triggers": {"type": "array", "items": _object({name: TRIGGER[name] for name in sorted(OF_TRIGGER)}, [])},
        "run_on_change": {"description": "Whether it runs once each time that apply changes it.", **FLAG},
    }
    return {name: known[name] for name in sorted(OF_JOB)}


def _of_column(name: str, column: str, default: Any) -> Schema:
    if column.endswith(SECONDS):
        return DURATION
    if name in _CHOICES:
        return {"enum": list(_CHOICES[name])}
    if name == "action":
        return _ACTION
    if isinstance(default, dict):
        return {"type": "object"}
    return _WITHOUT_DEFAULT[name] if default is None else _KINDS[type(default)]


def _named(schema: Schema) -> Schema:
    return {"anyOf": [{"type": "object", "additionalProperties": schema}, {"type": "null"}]}


def _object(properties: dict[str, Schema], required: list[str], nullable: set[str] | None = None) -> Schema:
    """A mapping of these alone; null is the default again, of all that is not ``required`` (or of ``nullable``)."""
    optional = properties.keys() - set(required) if nullable is None else nullable
    return {
        "type": "object",
        "properties": {
            name: {"anyOf": [schema, {"type": "null"}]} if name in optional else schema
            for name, schema in properties.items()
        },
        "required": required,
        "additionalProperties": False,
    }
