"""The shapes of what calendars are told and answer, for the OpenAPI document."""

from __future__ import annotations

from rest_framework import serializers

from scheduler.api.schema import at, number, optional_text, text, texts


class CalendarRuleAnswer(serializers.Serializer):
    """One rule: an effect and at least one condition; all of its conditions must hold."""

    effect = serializers.ChoiceField(["include", "exclude"], help_text="Whether the calendar is open where it matches.")
    name = text(required=False, help_text="Shown where the rule decides.")
    weekdays = serializers.ListField(child=number(), required=False, help_text="1 = Monday to 7; also MON to SUN.")
    month_days = serializers.ListField(child=number(), required=False, help_text="1 to 31; -1 is the month's last day.")
    yearly_dates = texts(required=False, help_text="MM-DD, of every year.")
    dates = texts(required=False, help_text="YYYY-MM-DD.")
    range_start = serializers.DateField(
        allow_null=True, required=False, help_text="First day of a range; null: it has always been."
    )
    range_end = serializers.DateField(
        allow_null=True, required=False, help_text="Last day of a range, included; null: it goes on."
    )
    window_start = optional_text(required=False, help_text="HH:MM of each day, with window_end.")
    window_end = optional_text(required=False, help_text="HH:MM, not included; before window_start: over midnight.")
    holiday_country = text(required=False, help_text="ISO 3166, such as DE: its public holidays.")
    holiday_subdivision = text(required=False, help_text="A part of the country, such as BY.")
    holiday_categories = texts(
        required=False, help_text="Of the holidays package; the country's usual ones if not said."
    )
    holiday_observed = serializers.BooleanField(
        required=False, help_text="Whether the day counts to which a holiday is moved; true if not said."
    )


class CalendarAnswer(serializers.Serializer):
    id = number()
    name = text()
    tenant = text()
    timezone = text()
    description = text()
    rules = CalendarRuleAnswer(many=True)
    managed_by = text(help_text="file: a jobs file has the say in it.")
    created_at = at()
    updated_at = at()


class CalendarBody(serializers.Serializer):
    name = text(required=False)
    timezone = text(required=False)
    description = text(required=False)
    rules = CalendarRuleAnswer(many=True, required=False)
