"""Calendars of open and closed days that gate schedules."""
