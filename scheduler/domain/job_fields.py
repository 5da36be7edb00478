"""What a job's definition on the wire means: wire fields to columns of `Job`. Pure; who may set what is elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from croniq_site.kernel.capabilities import RESERVED_PREFIX
from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.text import cleaned, is_printable_name
from scheduler.domain.actions import action_of
from scheduler.domain.inputs import (
    choice_of,
    flag_of,
    metadata_of,
    name_of,
    names_of,
    seconds_of,
    share_of,
    slug_of,
    text_of,
    whole_number_of,
)

LEAST_LEASE_SECONDS = 5.0
PIN_PREFIX = "runner:"
"""A pin is the required capability ``runner:<id>``; nobody may write one as a plain capability."""

CATCH_UPS = ("all", "latest", "none")
OVERLAPS = ("parallel", "queue_one", "skip")
STRATEGIES = ("fixed", "linear", "exponential")
_SMALLINT = 32_767
_COUNT_MOST = 10_000


def job_key_of(field: str, value: Any) -> str:
    """Two or three parts joined by ``:``, printable, 255 characters at most, without ``/`` (it is a part of a URL)."""
    parts = value.split(":") if isinstance(value, str) else []
    if (
        len(parts) not in (2, 3)
        or not is_printable_name(value)
        or not all(is_printable_name(part) for part in parts)
        or "/" in value
    ):
        raise InvalidInput.of(
            field,
            "A job key is two or three parts joined by a colon, such as 'billing:invoices', up to 255 printable "
            "characters, without a slash.",
        )
    return value


def capabilities_of(field: str, value: Any) -> list[str]:
    names = names_of(field, value)
    if any(name.startswith(PIN_PREFIX) for name in names):
        raise InvalidInput.of(field, f"A capability does not begin with {PIN_PREFIX!r}; name the runner in 'pin'.")
    if any(name.startswith(RESERVED_PREFIX) for name in names):
        raise InvalidInput.of(field, f"Capabilities that begin with {RESERVED_PREFIX!r} are Croniq's own.")
    return names


def _retention_of(field: str, value: Any) -> float:
    """Seconds; 0 keeps letters for ever."""
    if value in (0, "0s", "0") and not isinstance(value, bool):
        return 0.0
    return seconds_of(field, value)


def _pin_of(field: str, value: Any) -> str:
    return "" if value == "" else name_of(field, value, most=200)


Reader = Callable[[str, Any], Any]

# wire field: (column, default, reader). A default that is a dict or list is copied before use.
FIELDS: dict[str, tuple[str, Any, Reader]] = {
    "description": ("description", "", text_of),
    "metadata": ("metadata", {}, metadata_of),
    "action": ("action", {}, action_of),
    "tags": ("tags", [], names_of),
    "timeout": ("timeout_seconds", 300.0, seconds_of),
    "lease": ("lease_seconds", 60.0, lambda field, value: seconds_of(field, value, least=LEAST_LEASE_SECONDS)),
    "max_retries": ("max_retries", 3, lambda field, value: whole_number_of(field, value, 0, _COUNT_MOST)),
    "max_losses": ("max_losses", 2, lambda field, value: whole_number_of(field, value, 0, _COUNT_MOST)),
    "require": ("require", [], capabilities_of),
    "prefer": ("prefer", [], capabilities_of),
    "pin": ("pin", "", _pin_of),
    "priority": ("priority", 0, lambda field, value: whole_number_of(field, value, -_SMALLINT, _SMALLINT)),
    "max_concurrent": ("max_concurrent", None, lambda field, value: whole_number_of(field, value, 1, _COUNT_MOST)),
    "concurrency_group": ("concurrency_group", None, name_of),  # by its name; the service knows the row
    "overlap": ("overlap", "parallel", lambda field, value: choice_of(field, value, OVERLAPS)),
    "coalesce": ("coalesce", False, flag_of),
    "queue_ttl": ("queue_ttl_seconds", None, seconds_of),
    "max_queue_depth": ("max_queue_depth", 10, lambda field, value: whole_number_of(field, value, 1, 1_000_000)),
    "catch_up": ("catch_up", "latest", lambda field, value: choice_of(field, value, CATCH_UPS)),
    "misfire_grace": ("misfire_grace_seconds", None, seconds_of),
    "max_catch_up": ("max_catch_up", 100, lambda field, value: whole_number_of(field, value, 1, 1000)),
    "dead_letter_enabled": ("dead_letter_enabled", True, flag_of),
    "dead_letter_retention": ("dead_letter_retention_seconds", 30 * 86_400.0, _retention_of),
    "dead_letter_operator_hint": ("dead_letter_operator_hint", "", text_of),
    "dead_letter_replay_max_age": ("dead_letter_replay_max_age_seconds", None, seconds_of),
}

RETRY: dict[str, tuple[str, Any, Reader]] = {
    "strategy": ("retry_strategy", "exponential", lambda field, value: choice_of(field, value, STRATEGIES)),
    "base": ("retry_base_seconds", 2.0, seconds_of),
    "step": ("retry_step_seconds", 2.0, seconds_of),
    "cap": ("retry_cap_seconds", 3600.0, seconds_of),
    "jitter": ("retry_jitter", 0.1, share_of),
}


def job_columns(fields: Mapping[str, Any], *, partial: bool) -> dict[str, Any]:
    """The columns that ``fields`` sets. ``job_key`` is not among them; the caller has looked at it.

    null is the default. A missing field is untouched when ``partial``, else the default too, except ``is_active`` and
    ``tenant``, which only a value changes: saying again what a job does must not wake one that was switched off.
    """
    refuse_unknown(fields, {*FIELDS, "retry", "is_active", "tenant", "job_key"})
    columns: dict[str, Any] = {}
    for field, (column, default, reader) in FIELDS.items():
        if field in fields or not partial:
            columns[column] = _value(field, fields.get(field), default, reader)
    columns |= _retry_columns(fields, partial=partial)
    if fields.get("is_active") is not None:
        columns["is_active"] = flag_of("is_active", fields["is_active"])
    elif "is_active" in fields:
        columns["is_active"] = True
    if fields.get("tenant") is not None:
        columns["tenant"] = slug_of("tenant", fields["tenant"])
    return columns


def refuse_unknown(fields: Mapping[str, Any], known: set[str], prefix: str = "") -> None:
    """Refuse a field that is not among those ``known``, naming the one that is like it, else all that there are."""
    for field in fields:
        if field not in known:
            shown = prefix + cleaned(str(field)[:64], 256)
            near = get_close_matches(str(field)[:64].lower(), sorted(known), n=1)
            hint = f"Did you mean {prefix}{near[0]}?" if near else f"There are {', '.join(sorted(known))}."
            raise InvalidInput.of(shown, f"{shown} is not a field that is known here. {hint}")


def _retry_columns(fields: Mapping[str, Any], *, partial: bool) -> dict[str, Any]:
    if "retry" not in fields and partial:
        return {}
    retry = fields.get("retry")
    if retry is None:
        return {column: default for column, default, _ in RETRY.values()}
    if not isinstance(retry, Mapping):
        raise InvalidInput.of("retry", "retry is an object of strategy, base, step, cap and jitter.")
    refuse_unknown(retry, set(RETRY), "retry.")
    return {
        column: _value(f"retry.{field}", retry.get(field), default, reader)
        for field, (column, default, reader) in RETRY.items()
        if field in retry or not partial
    }


def _value(field: str, value: Any, default: Any, reader: Reader) -> Any:
    if value is None:
        return default.copy() if isinstance(default, dict | list) else default
    return reader(field, value)
