"""What services refuse, in the words of the page: services name a field as the API does, a page by its label."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from croniq_site.kernel.errors import CroniqError
from scheduler.dashboard.sentences import said

Labels = Mapping[str, str | Promise]

LABELS: Labels = {
    "reason": _("Reason"),
    "until": _("Until"),
    "from": _("From"),
    "since": _("From"),
    "metadata": _("Metadata"),
    "note": _("Note"),
    "add": _("Tags to add"),
    "remove": _("Tags to take away"),
    "name": _("Name"),
    "tenant": _("Tenant"),
    "scopes": _("What it may do"),
    "expires_in": _("Expires after"),
    "grace": _("Overlap"),
    "day": _("Day"),
    "job": _("Job key"),
    "state": _("State"),
}
"""Of fields that are called the same wherever they are."""


def in_words(text: object, field: str, labels: Labels = LABELS) -> str:
    """A sentence about ``field`` in the reader's language, with the field's label for its name on the wire."""
    sentence, label = str(text), labels.get(field)
    # A name that is an English word too is the field only where a sentence of ours has it for one.
    is_named = "_" in field or sentence.startswith((f"{field} ", f"The shortest possible {field} "))
    if label and is_named:
        sentence = re.sub(rf"(?<![\w.]){re.escape(field)}(?![\w.])", lambda _match: f"“{label}”", sentence)
    return said(sentence)


def errors_of(refused: CroniqError, labels: Labels = LABELS, whole: str = "") -> dict[str, str]:
    """What was refused by field, all of it; what is wrong with the whole is said of the field ``whole``."""
    if not refused.fields:
        return {whole: said(refused.message)}
    return {
        name: " ".join(in_words(text, name, labels) for text in sentences) for name, sentences in refused.fields.items()
    }


def labelled_errors(refused: CroniqError) -> list[tuple[str, str]]:
    """The same for a page that has no form: the label, or the name of what no form of ours asks for, and sentence."""
    return [(str(LABELS.get(name, name)), text) for name, text in errors_of(refused).items()]
