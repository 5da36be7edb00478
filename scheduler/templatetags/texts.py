"""How pages show what services have said."""

from __future__ import annotations

from django import template

from scheduler.dashboard.sentences import said

register = template.Library()
register.filter("said", said)
