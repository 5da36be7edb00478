"""/v1/alert-channels, /v1/alert-rules, /v1/alerts (ours): who is told when something goes wrong, and of what."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import NotFound
from runners.api.parameters import text_of
from runners.api.views import ApiView
from scheduler.api import alerts_schema, openapi
from scheduler.api.paging import list_answer
from scheduler.api.views.audit import pk_part
from scheduler.api.views.jobs import actor_of
from scheduler.domain.inputs import choice_of, slug_of
from scheduler.models import Alert
from scheduler.queries.alerts import alert_list, channel_list, rule_list
from scheduler.services.alerts.definitions import (
    check_channel,
    create_channel,
    create_rule,
    delete_channel,
    delete_rule,
)
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
        "Make a channel: a webhook, whose requests are signed with the secret of the answer, or a mail address.",
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
        "Make a rule: what is told to which channel.",
        {201: alerts_schema.AlertRuleAnswer},
        body=alerts_schema.AlertRuleBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        values, tenant = _said(self)
        return Response(alerts_schema.rule_body(create_rule(values, self.now, actor_of(self), tenant)), status=201)


class OneAlertRule(ApiView):
    required_scope = {"DELETE": "alerts:write"}

    @openapi.documented("deleteAlertRule", "Delete a rule.", {204: None}, refuses=(404,))
    def delete(self, request: Request, rule_id: str) -> Response:
        delete_rule(_number(rule_id, "alert rule"), self.now, actor_of(self), self.principal.tenant)
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
