"""What the shop does later."""

import logging

from croniq_tasks import current_run, scheduled
from croniq_tasks.compat import TaskContext  # `from django.tasks import TaskContext, task` on Django 6

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

log = logging.getLogger(__name__)


@task
def total(prices: list[float], *, discount: float = 0.0) -> float:
    log.warning("adding %d prices", len(prices))
    return round(sum(prices) * (1 - discount), 2)


@task(queue_name="mail")
async def confirm(order: int) -> str:
    return f"order {order} is on its way"


@task
def charge(order: int) -> None:
    raise ValueError(f"the card of order {order} was refused")


@task(takes_context=True)
def attempt_number(context: TaskContext) -> int:
    return context.attempt


@scheduled("2s", name="often", args=["EUR"])
@task
def report(currency: str) -> str:
    """The day that is reported is that of the schedule, also when the run is late or repeated."""
    run = current_run()
    return f"{currency} until {run.scheduled_for.isoformat()}"
