"""/v1/alert-channels, -rules, -exemptions, /v1/alerts (ours): who is told when something goes wrong, and of what."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput, NotFound
from runners.api.parameters import text_of
from runners.api.views import ApiView
from scheduler.api import alerts_schema, openapi
from scheduler.api.paging import list_answer
from scheduler.api.views.audit import pk_part
from scheduler.api.views.jobs import actor_of
from scheduler.domain.inputs import choice_of, slug_of
from scheduler.models import Alert, AlertRule
from scheduler.queries.alerts import alert_list, channel_list, exemption_list, rule_detail, rule_list
from scheduler.services.alerts.definitions import (
    check_channel,
    create_channel,
    delete_channel,
    delete_rule,
    save_rule,
)
from scheduler.services.alerts.exemptions import end_exemption, make_exemption
from scheduler.services.jobs import DEFAULT_TENANT


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise NotFound(f"There is no such {what}.")
    return int(text)


def _said(view: ApiView) -> tuple[dict[str, Any], str]:
    """The body without its tenant, which a key of none may say, and whose it is."""
    values = dict(view.body)
    tenant = view.principal.tenant or DEFAULT_TENANT
    if view.principal.tenant is None and "tenant" in values:
        tenant = slug_of("tenant", values.pop("tenant"))
    return values, tenant


class AlertChannels(ApiView):
    required_scope = {"GET": "alerts:read", "POST": "alerts:write"}

    @openapi.documented(
        "listAlertChannels",
        "The channels that alerts go to, by name.",
        {200: openapi.listed(alerts_schema.AlertChannelAnswer)},
        parameters=[*openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        return list_answer(
            request,
            lambda limit, after: channel_list(tenant=self.principal.tenant, limit=limit, after=after),
            body=alerts_schema.channel_body,
            key=lambda channel: (channel.name, channel.pk),
            key_parts=(str, pk_part),
        )

    @openapi.documented(
        "createAlertChannel",
        "Make a channel: a webhook, signed with the secret of the answer, a mail address, or apprise.",
        {201: alerts_schema.MadeAlertChannelAnswer},
        body=alerts_schema.AlertChannelBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        values, tenant = _said(self)
        channel = create_channel(values, self.now, actor_of(self), tenant)
        return Response({**alerts_schema.channel_body(channel), "secret": channel.secret}, status=201)


class OneAlertChannel(ApiView):
    required_scope = {"DELETE": "alerts:write"}

    @openapi.documented("deleteAlertChannel", "Delete a channel that no rule tells.", {204: None}, refuses=(404, 409))
    def delete(self, request: Request, channel_id: str) -> Response:
        delete_channel(_number(channel_id, "alert channel"), self.now, actor_of(self), self.principal.tenant)
        return Response(status=204)


class CheckAlertChannel(ApiView):
    required_scope = {"POST": "alerts:write"}

    @openapi.documented(
        "testAlertChannel",
        "Send a test over a channel, as any alert is sent; /v1/alerts tells what became of it.",
        {200: alerts_schema.TestedAnswer},
        refuses=(404,),
    )
    def post(self, request: Request, channel_id: str) -> Response:
        number = _number(channel_id, "alert channel")
        return Response({"alert_id": str(check_channel(number, self.now, actor_of(self), self.principal.tenant))})


class AlertRules(ApiView):
    required_scope = {"GET": "alerts:read", "POST": "alerts:write"}

    @openapi.documented(
        "listAlertRules",
        "The rules, by name.",
        {200: openapi.listed(alerts_schema.AlertRuleAnswer)},
        parameters=[*openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        return list_answer(
            request,
            lambda limit, after: rule_list(tenant=self.principal.tenant, limit=limit, after=after),
            body=alerts_schema.rule_body,
            key=lambda rule: (rule.name, rule.pk),
            key_parts=(str, pk_part),
        )

    @openapi.documented(
        "createAlertRule",
        "Make a rule: what is told to which channels.",
        {201: alerts_schema.AlertRuleAnswer},
        body=alerts_schema.AlertRuleBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        values, tenant = _said(self)
        rule = save_rule(values, self.now, actor_of(self), tenant)
        return Response(alerts_schema.rule_body(rule), status=201)


class OneAlertRule(ApiView):
    required_scope = {"GET": "alerts:read", "PUT": "alerts:write", "DELETE": "alerts:write"}

    @openapi.documented("getAlertRule", "A rule.", {200: alerts_schema.AlertRuleAnswer}, refuses=(404,))
    def get(self, request: Request, rule_id: str) -> Response:
        return Response(alerts_schema.rule_body(_rule(rule_id, self.principal.tenant)))

    @openapi.documented(
        "editAlertRule",
        "Change a rule; what is missing stays as it is, null is as in a new one.",
        {200: alerts_schema.AlertRuleAnswer},
        body=alerts_schema.AlertRuleBody,
        refuses=(400, 404, 409, 413),
    )
    def put(self, request: Request, rule_id: str) -> Response:
        values = dict(self.body)
        for field in ("id", "tenant", "created_at"):
            if field in values:
                raise InvalidInput.of(field, f"The {field} of a rule stays what it is. Leave it out.")
        number = _number(rule_id, "alert rule")
        save_rule(values, self.now, actor_of(self), self.principal.tenant, number)
        return Response(alerts_schema.rule_body(_rule(rule_id, self.principal.tenant)))

    @openapi.documented("deleteAlertRule", "Delete a rule.", {204: None}, refuses=(404,))
    def delete(self, request: Request, rule_id: str) -> Response:
        delete_rule(_number(rule_id, "alert rule"), self.now, actor_of(self), self.principal.tenant)
        return Response(status=204)


def _rule(rule_id: str, tenant: str | None) -> AlertRule:
    rule = rule_detail(_number(rule_id, "alert rule"), tenant)
    if rule is None:
        raise NotFound("There is no such alert rule.")
    return rule


class AlertExemptions(ApiView):
    required_scope = {"GET": "alerts:read", "POST": "alerts:snooze"}

    @openapi.documented(
        "listAlertExemptions",
        "The exemptions in effect, newest first.",
        {200: openapi.listed(alerts_schema.AlertExemptionAnswer)},
        parameters=[*openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        return list_answer(
            request,
            lambda limit, before: exemption_list(self.now, tenant=self.principal.tenant, limit=limit, before=before),
            body=alerts_schema.exemption_body,
            key=lambda row: (row.pk,),
            key_parts=(pk_part,),
        )

    @openapi.documented(
        "createAlertExemption",
        "Let rules not tell, or tell differently, for a time: snooze, disable or override.",
        {201: alerts_schema.AlertExemptionAnswer},
        body=alerts_schema.AlertExemptionBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        values, tenant = _said(self)
        row = make_exemption(values, self.now, actor_of(self), tenant)
        return Response(alerts_schema.exemption_body(row), status=201)


class OneAlertExemption(ApiView):
    required_scope = {"DELETE": "alerts:snooze"}

    @openapi.documented("endAlertExemption", "End an exemption before its time.", {204: None}, refuses=(404,))
    def delete(self, request: Request, exemption_id: str) -> Response:
        number = _number(exemption_id, "alert exemption")
        end_exemption(number, self.now, actor_of(self), self.principal.tenant)
        return Response(status=204)


class Alerts(ApiView):
    required_scope = {"GET": "alerts:read"}

    @openapi.documented(
        "listAlerts",
        "What was told, or is to be, newest first, and how its delivery went.",
        {200: openapi.listed(alerts_schema.AlertAnswer)},
        parameters=[openapi.query("state", enum=Alert.State.values), *openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        state = text_of(request, "state")
        if state is not None:
            choice_of("state", state, Alert.State.values)
        return list_answer(
            request,
            lambda limit, before: alert_list(tenant=self.principal.tenant, state=state, limit=limit, before=before),
            body=alerts_schema.alert_body,
            key=lambda alert: (alert.pk,),
            key_parts=(UUID,),
        )
