"""How pages show what services have said."""

from __future__ import annotations

import re
from datetime import datetime

from django import template
from django.template import Context
from django.utils.html import conditional_escape, format_html_join
from django.utils.safestring import SafeString

from scheduler.dashboard.sentences import said
from scheduler.dashboard.times import time_element, viewers_zone

register = template.Library()
register.filter("said", said)

INSTANT = re.compile(
    r"\b(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?: UTC\b|Z\b|([+-]\d\d:\d\d)\b)(?: UTC\b)?"
)
"""An instant as services and rows say it, with its offset."""


@register.simple_tag(takes_context=True)
def told(context: Context, text: object) -> SafeString:
    """Show a sentence that a service has said in the reader's language, and the instants in it as all instants are
    shown (`instant`)."""
    viewer = viewers_zone(getattr(context.get("request"), "user", None))
    sentence, parts, end = said(text), [], 0
    for found in INSTANT.finditer(sentence):
        try:
            at = datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3] or '+00:00'}")
        except ValueError:  # the 31st of June: whatever it is
            continue
        parts += [conditional_escape(sentence[end : found.start()]), time_element(at, "", viewer)]
        end = found.end()
    return format_html_join("", "{}", ((part,) for part in [*parts, sentence[end:]]))
