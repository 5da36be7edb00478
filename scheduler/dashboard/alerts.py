"""Alerts: what is told to whom, what was told, and what is exempt for a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _

from calendars.queries.lists import calendar_list
from croniq_site.kernel.errors import CroniqError, InvalidInput, NotFound
from scheduler.dashboard import alert_fields
from scheduler.dashboard.pages import action, actor_of, address, form, or_message, page, text_in
from scheduler.dashboard.sentences import said
from scheduler.domain.alerts import shown_target
from scheduler.domain.inputs import choice_of
from scheduler.models import Alert, AlertRule
from scheduler.queries.alerts import (
    alert_list,
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
    state = text_in(request, "state")
    if state:
        choice_of("state", state, Alert.State.values)
    rows = alert_list(tenant=None, state=state or None, limit=PAGE_ROWS + 1, before=_position(request))
    more = ""
    if len(rows) > PAGE_ROWS:
        more = address("alerts", {"state": state, "before": rows[PAGE_ROWS - 1].pk})
    context = {
        "rules": [
            {
                "rule": rule,
                "channels": channel_names(rule),
                "kind": alert_fields.KINDS[rule.kind],
                "terms": alert_fields.terms_of(rule),
            }
            for rule in rule_list(tenant=None, limit=MOST)
        ],
        "channels": [
            (channel, alert_fields.CHANNEL_KINDS[channel.kind], shown_target(channel.target))
            for channel in channel_list(tenant=None, limit=MOST)
        ],
        "exemptions": [(row, alert_fields.EFFECTS[row.effect]) for row in exemption_list(now, tenant=None, limit=MOST)],
        "alerts": [
            {
                "alert": alert,
                "event": alert_fields.EVENTS[alert.event],
                "outcome": alert_fields.STATES[alert.held or alert.state],
            }
            for alert in rows[:PAGE_ROWS]
        ],
        "states": [(value, alert_fields.STATES[value]) for value in Alert.State.values],
        "state": state,
        "more": more,
        "may_exempt": request.user.has_perm(EXEMPT),
        "may_edit": request.user.has_perm(EDIT),
    }
    return render(request, "dashboard/alerts.html", context)


def _position(request: HttpRequest) -> tuple[UUID] | None:
    text = request.GET.get("before", "")
    try:
        return (UUID(text),) if text else None
    except ValueError:
        raise InvalidInput.of("before", "This is no place in the list; begin at its top.") from None


@form(needs=EXEMPT)
def new_exemption(request: HttpRequest, now: datetime) -> HttpResponse:
    names = [rule.name for rule in rule_list(tenant=DEFAULT_TENANT, limit=MOST)]
    fields = alert_fields.exemption_fields(names)

    def save(values: dict[str, Any]) -> HttpResponse:
        make_exemption(values, now, actor_of(request), DEFAULT_TENANT)
        messages.success(request, _("It is in effect, and ends by itself."))
        return HttpResponseRedirect(address("alerts"))

    given = {"rule": text_in(request, "rule"), "job_glob": text_in(request, "job") or "*", "duration": "1h"}
    return _filled_in(request, _("Snooze, switch off or override"), _("Begin it"), fields, given, save)


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
    tenant = rule.tenant if rule is not None else DEFAULT_TENANT
    channels = [channel.name for channel in channel_list(tenant=tenant, limit=MOST)]
    fields = alert_fields.rule_fields(
        channels, [calendar.name for calendar in calendar_list(tenant=tenant, limit=MOST)]
    )

    def save(values: dict[str, Any]) -> HttpResponse:
        unsaid = {field.name: None for field in fields} if rule is not None else {}
        save_rule({**unsaid, **values}, now, actor_of(request), tenant, rule.pk if rule is not None else None)
        messages.success(request, _("The rule is saved."))
        return HttpResponseRedirect(address("alerts"))

    title = _("Edit the rule {name}").format(name=rule.name) if rule is not None else _("New rule")
    given = alert_fields.rule_texts(rule)
    return _filled_in(request, title, _("Save"), fields, given, save)


@action(needs=EDIT)
def remove_rule(request: HttpRequest, now: datetime, rule_id: int) -> str:
    delete_rule(rule_id, now, actor_of(request), None)
    messages.success(request, _("The rule is deleted; what waited to be told for it is dropped."))
    return address("alerts")


@form(needs=EDIT)
def new_channel(request: HttpRequest, now: datetime) -> HttpResponse:
    def save(values: dict[str, Any]) -> HttpResponse:
        channel = create_channel(values, now, actor_of(request), DEFAULT_TENANT)
        if not channel.secret:
            messages.success(request, _("The channel is made. Send a test over it."))
            return HttpResponseRedirect(address("alerts"))
        # Not by way of a redirect: the secret is in this answer and nowhere else.
        return render(request, "dashboard/alert_channel_made.html", {"channel": channel})

    return _filled_in(request, _("New channel"), _("Make it"), alert_fields.channel_fields(), {}, save)


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


def _filled_in(
    request: HttpRequest,
    title: str,
    button: str,
    fields: list[alert_fields.Field],
    given: dict[str, Any],
    save: Callable[[dict[str, Any]], HttpResponse],
) -> HttpResponse:
    """Show the form, or save what it says; what is refused is said beside the field that it is about."""
    errors: dict[str, str] = {}
    refusal, status = "", 200
    if request.method == "POST":
        given = alert_fields.texts_in(fields, request.POST)
        try:
            return save(alert_fields.values_of(fields, given))
        except InvalidInput as refused:
            errors = {name: said(texts[0]) for name, texts in refused.fields.items()}
            refusal, status = "" if errors.keys() <= {field.name for field in fields} else said(refused.message), 400
        except CroniqError as refused:
            if refused.status != 409:
                raise
            refusal, status = said(refused.message), 409
    rows = [(field, given.get(field.name, field.usual), errors.get(field.name, "")) for field in fields]
    context = {"title": title, "button": button, "rows": rows, "refusal": refusal, "is_wrong": bool(errors)}
    return render(request, "dashboard/alert_form.html", context, status=status)
