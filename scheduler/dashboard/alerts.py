"""Alerts: what is told to whom, what was told, and what is exempt for a time."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _

from calendars.queries.lists import calendar_list
from croniq_site.kernel.errors import InvalidInput, NotFound
from scheduler.dashboard import alert_fields
from scheduler.dashboard.alert_fields import Field, tenant_field
from scheduler.dashboard.alert_form import Chosen, filled_in
from scheduler.dashboard.pages import action, actor_of, address, form, live_answer, or_message, page, text_in
from scheduler.domain.alerts import shown_target
from scheduler.domain.inputs import choice_of
from scheduler.models import Alert, AlertExemption, AlertRule
from scheduler.queries.alerts import (
    alert_list,
    alert_tenants,
    channel_list,
    channel_names,
    exemption_list,
    rule_detail,
    rule_list,
)
from scheduler.services.alerts.definitions import (
    check_channel,
    create_channel,
    delete_channel,
    delete_rule,
    save_rule,
)
from scheduler.services.alerts.exemptions import end_exemption, make_exemption
from scheduler.services.jobs import DEFAULT_TENANT

VIEW = "scheduler.view_alert"
EXEMPT = "scheduler.add_alertexemption"
EDIT = "scheduler.change_alertchannel"
MOST = 200
"""Rules, channels and exemptions that are shown; the API has the others."""
PAGE_ROWS = 50


@page(needs=VIEW)
def alert_page(request: HttpRequest, now: datetime) -> HttpResponse:
    state, tenant = text_in(request, "state"), text_in(request, "tenant")
    if state:
        choice_of("state", state, Alert.State.values)
    before = _position(request)
    told = _told(request, now, state, tenant, before)
    if not request.htmx:
        told |= _ruled(now, tenant)
    shown = [
        [(row["channel"].pk, row["channel"].failures, row["channel"].tried_at) for row in told["channels"]],
        [(row["alert"].pk, str(row["outcome"]), row["alert"].attempt, row["next_at"]) for row in told["alerts"]],
    ]
    return live_answer(request, "dashboard/alerts.html", "dashboard/_alerts_told.html", told, shown)


def _told(request: HttpRequest, now: datetime, state: str, tenant: str, before: tuple[UUID] | None) -> dict[str, Any]:
    """What changes by itself: how the channels are, and the log."""
    rows = alert_list(tenant=tenant or None, state=state or None, limit=PAGE_ROWS + 1, before=before)
    more = ""
    if len(rows) > PAGE_ROWS:
        more = address("alerts", {"state": state, "tenant": tenant, "before": rows[PAGE_ROWS - 1].pk})
    return {
        "channels": [
            {
                "channel": channel,
                "kind": alert_fields.CHANNEL_KINDS[channel.kind],
                "target": shown_target(channel.target),
                "again_at": channel.closed_until if channel.closed_until and channel.closed_until > now else None,
            }
            for channel in channel_list(tenant=tenant or None, limit=MOST)
        ],
        "alerts": [
            {
                "alert": alert,
                "told": alert_fields.told(alert),
                "outcome": alert_fields.STATES[alert.held or alert.state],
                "next_at": alert.next_at and max(alert.next_at, alert.channel.closed_until or alert.next_at),
            }
            for alert in rows[:PAGE_ROWS]
        ],
        "states": [(value, alert_fields.STATES[value]) for value in Alert.State.values],
        "state": state,
        "tenant": tenant,
        "more": more,
        "is_top": before is None,
        "may_exempt": request.user.has_perm(EXEMPT),
        "may_edit": request.user.has_perm(EDIT),
    }


def _ruled(now: datetime, tenant: str) -> dict[str, Any]:
    """What somebody has said: rules and exemptions."""
    names = alert_tenants()
    return {
        "tenants": sorted({*names, tenant} - {""}) if len(names) > 1 or tenant else [],
        "rules": [
            {
                "rule": rule,
                "channels": channel_names(rule),
                "kind": alert_fields.KINDS[rule.kind],
                "terms": alert_fields.terms_of(rule),
                "grace": alert_fields.grace_of(rule),
                "throttle": alert_fields.throttle_of(rule),
            }
            for rule in rule_list(tenant=tenant or None, limit=MOST)
        ],
        "exemptions": [
            (row, alert_fields.EFFECTS[row.effect]) for row in exemption_list(now, tenant=tenant or None, limit=MOST)
        ],
    }


def _position(request: HttpRequest) -> tuple[UUID] | None:
    text = request.GET.get("before", "")
    try:
        return (UUID(text),) if text else None
    except ValueError:
        raise InvalidInput.of("before", "This is no place in the list; begin at its top.") from None


@form(needs=EXEMPT)
def new_exemption(request: HttpRequest, now: datetime) -> HttpResponse:
    tenants = alert_tenants()

    def fields_of(chosen: Chosen) -> list[Field]:
        rules = [rule.name for rule in rule_list(tenant=chosen.get("tenant", DEFAULT_TENANT), limit=MOST)]
        effect = chosen.get("effect", AlertExemption.Effect.SNOOZE)
        return [*tenant_field(tenants), *alert_fields.exemption_fields(effect, rules)]

    def save(values: dict[str, Any]) -> HttpResponse:
        tenant = values.pop("tenant", DEFAULT_TENANT)
        make_exemption(values, now, actor_of(request), tenant)
        messages.success(request, _("It is in effect, and ends by itself."))
        return HttpResponseRedirect(address("alerts"))

    given = {
        **_tenant_in(request),
        "rule": text_in(request, "rule"),
        "job_glob": text_in(request, "job") or "*",
        "duration": "1h",
    }
    return filled_in(request, _("Snooze alerts, or change them for a time"), _("Begin it"), fields_of, given, save)


@action(needs=EXEMPT)
def stop_exemption(request: HttpRequest, now: datetime, exemption_id: int) -> str:
    end_exemption(exemption_id, now, actor_of(request), None)
    messages.success(request, _("It has ended; what it held back is looked at again."))
    return address("alerts")


@form(needs=EDIT)
def new_rule(request: HttpRequest, now: datetime) -> HttpResponse:
    return _rule_form(request, now, None)


@form(needs=EDIT)
def edit_rule(request: HttpRequest, now: datetime, rule_id: int) -> HttpResponse:
    rule = rule_detail(rule_id, None)
    if rule is None:
        raise NotFound("There is no such alert rule.")
    return _rule_form(request, now, rule)


def _rule_form(request: HttpRequest, now: datetime, rule: AlertRule | None) -> HttpResponse:
    tenants = alert_tenants() if rule is None else []

    def fields_of(chosen: Chosen) -> list[Field]:
        tenant = rule.tenant if rule is not None else chosen.get("tenant", DEFAULT_TENANT)
        channels = [channel.name for channel in channel_list(tenant=tenant, limit=MOST)]
        calendars = [calendar.name for calendar in calendar_list(tenant=tenant, limit=MOST)]
        own = alert_fields.rule_fields(chosen.get("kind", AlertRule.Kind.FAILED), channels, calendars)
        return [*tenant_field(tenants), *own]

    def save(values: dict[str, Any]) -> HttpResponse:
        tenant = rule.tenant if rule is not None else values.pop("tenant", DEFAULT_TENANT)
        unsaid = {field.name: None for field in fields_of(values)} if rule is not None else {}
        save_rule({**unsaid, **values}, now, actor_of(request), tenant, rule.pk if rule is not None else None)
        messages.success(request, _("The rule is saved."))
        return HttpResponseRedirect(address("alerts"))

    title = _("Edit the rule {name}").format(name=rule.name) if rule is not None else _("New rule")
    given = alert_fields.rule_texts(rule) if rule is not None else _tenant_in(request)
    return filled_in(request, title, _("Save"), fields_of, given, save)


def _tenant_in(request: HttpRequest) -> dict[str, str]:
    return {"tenant": text_in(request, "tenant") or DEFAULT_TENANT}


@action(needs=EDIT)
def remove_rule(request: HttpRequest, now: datetime, rule_id: int) -> str:
    delete_rule(rule_id, now, actor_of(request), None)
    messages.success(request, _("The rule is deleted; what waited to be told for it is dropped."))
    return address("alerts")


@form(needs=EDIT)
def new_channel(request: HttpRequest, now: datetime) -> HttpResponse:
    tenants = alert_tenants()

    def fields_of(chosen: Chosen) -> list[Field]:
        return [*tenant_field(tenants), *alert_fields.channel_fields()]

    def save(values: dict[str, Any]) -> HttpResponse:
        tenant = values.pop("tenant", DEFAULT_TENANT)
        channel = create_channel(values, now, actor_of(request), tenant)
        if not channel.secret:
            messages.success(request, _("The channel is made. Send a test over it."))
            return HttpResponseRedirect(address("alerts"))
        # Not by way of a redirect: the secret is in this answer and nowhere else.
        return render(request, "dashboard/alert_channel_made.html", {"channel": channel})

    return filled_in(request, _("New channel"), _("Make it"), fields_of, _tenant_in(request), save)


@action(needs=EDIT)
def send_test(request: HttpRequest, now: datetime, channel_id: int) -> str:
    check_channel(channel_id, now, actor_of(request), None)
    messages.success(request, _("A test is on its way; the log below says what becomes of it."))
    return address("alerts")


@action(needs=EDIT)
def remove_channel(request: HttpRequest, now: datetime, channel_id: int) -> str:
    if or_message(request, lambda: delete_channel(channel_id, now, actor_of(request), None) or True):
        messages.success(request, _("The channel is deleted, and its secret with it."))
    return address("alerts")
