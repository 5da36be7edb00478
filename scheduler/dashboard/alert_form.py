"""A form of alerts: what is chosen first says which fields there are. Without JavaScript they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _

from croniq_site.kernel.errors import CroniqError, InvalidInput
from croniq_site.kernel.text import cleaned
from scheduler.dashboard.alert_fields import TEXT_MOST_BYTES, Field, texts_in, values_of
from scheduler.dashboard.refusals import errors_of
from scheduler.dashboard.sentences import said

DECIDING = ("tenant", "kind", "effect")
Chosen = Mapping[str, str]
"""What is chosen of `DECIDING`; what is not in it is as usual."""


def filled_in(
    request: HttpRequest,
    title: str,
    button: str,
    fields_of: Callable[[Chosen], list[Field]],
    given: Mapping[str, Any],
    save: Callable[[dict[str, Any]], HttpResponse],
) -> HttpResponse:
    """Show the form, or save what it says; what is refused is said beside the fields, all of it at once.

    A form that was drawn for another choice, or that asks for the fields of one, is shown again.
    """
    errors: dict[str, str] = {}
    refusal, note, status, texts = "", "", 200, dict(given)
    fields = fields_of({name: str(given[name]) for name in DECIDING if given.get(name)})
    if request.method == "POST":
        chosen, drawn = _chosen(request.POST, ""), _chosen(request.POST, "drawn-")
        fields = fields_of(chosen)
        texts = _texts(fields, fields_of({**chosen, **drawn}), request.POST)
        if "choose" in request.POST or {**chosen, **drawn} != chosen:
            if "choose" not in request.POST:
                note = _("These are the fields of what you have chosen. Look them through, then save.")
        else:
            try:
                return save(values_of(fields, texts))
            except InvalidInput as refused:
                errors = errors_of(refused, {field.name: field.label for field in fields}) | _missing(fields, texts)
                names = {field.name for field in fields}
                refusal = " ".join(text for name, text in errors.items() if name not in names)
                status = 400
            except CroniqError as refused:
                refusal, status = said(refused.message), refused.status
    rows = [(field, texts.get(field.name, field.usual), errors.get(field.name, "")) for field in fields]
    context = {
        "title": title,
        "button": button,
        "deciding": [row for row in rows if row[0].decides],
        "rows": [row for row in rows if not row[0].decides],
        "refusal": refusal,
        "note": note,
        "is_wrong": bool(errors),
    }
    template = "dashboard/_alert_fields.html" if request.htmx else "dashboard/alert_form.html"
    return render(request, template, context, status=status)


def _chosen(values: QueryDict, prefix: str) -> dict[str, str]:
    return {name: cleaned(values[prefix + name], TEXT_MOST_BYTES) for name in DECIDING if values.get(prefix + name)}


def _texts(fields: list[Field], drawn: list[Field], values: QueryDict) -> dict[str, Any]:
    """What a form says of the fields that it had; a box that it did not have is not an empty one."""
    had = {field.name for field in drawn}
    usual = {field.name: field.usual for field in fields}
    return {name: text if name in had else usual[name] for name, text in texts_in(fields, values).items()}


def _missing(fields: list[Field], texts: Mapping[str, Any]) -> dict[str, str]:
    return {
        field.name: _("Choose at least one.") if field.kind == "many" else _("This is needed.")
        for field in fields
        if field.is_required and not texts[field.name] and field.name != "note"
    }
