"""Django tasks that are run, and scheduled, by Croniq: a client of its HTTP API, without anything of the server."""

from croniq_tasks.current import CurrentRun, current_run
from croniq_tasks.schedules import scheduled

__all__ = ["CurrentRun", "current_run", "scheduled"]
