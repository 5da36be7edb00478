"""Alert channels that do not answer. Over them nobody hears of it: it is told wherever somebody looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.sql.gauges import SilentChannel

FAILURES_TOLD = 4
"""Attempts without an answer, one after the other, from which on a channel is told of: there are 10, 20 and 40 seconds
between them (`domain.alerts.pause_after`), so it has not answered for over a minute."""
MOST_NAMED = 10


def channel_sentences(channels: Sequence[SilentChannel]) -> Iterator[str]:
    """Name the first of them, with what waits for each, and count the others."""
    for channel in channels[:MOST_NAMED]:
        name, tenant, failures = channel.name, channel.tenant, channel.failures
        if channel.oldest_at is None:
            yield f"The alert channel {name} of {tenant} has not answered {failures} attempts. No alert waits for it."
        else:
            since, waiting = channel.oldest_at.isoformat(timespec="seconds"), channel.waiting
            yield (
                f"The alert channel {name} of {tenant} has not answered {failures} attempts. "
                f"Alerts that wait for it: {waiting}, the oldest since {since}."
            )
    more = len(channels) - MOST_NAMED
    if more > 0:
        yield f"{more} more alert channels do not answer."
