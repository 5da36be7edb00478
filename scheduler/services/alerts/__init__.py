"""Alerts: who is told of what, the causes, and their delivery."""
