"""The hot, narrow rows: what is unfinished, and the slots it holds."""

from django.db import models
from django.db.models import Q
from django.db.models.lookups import In

from runners.models import RunnerInstance
from scheduler.models.job import Job, Lane
from scheduler.models.run import Run


class QueueEntry(models.Model):
    """Exists exactly while its run is unfinished or its handler still winds down (``stopping``)."""

    class State(models.IntegerChoices):
        READY = 0  # claimable at available_at
        GATED = 1  # of a limited job; not yet due or not yet admitted
        HELD = 2  # of a paused job
        CLAIMED = 3
        STOPPING = 4  # final already, handler not yet gone

    WAITING = (State.READY, State.GATED, State.HELD)
    """Those of which `queue_entry_waiting` knows. SQLite uses it only where exactly these are named."""

    run = models.OneToOneField(Run, on_delete=models.PROTECT, primary_key=True, related_name="entry")
    # The database looks at neither: the job is the run's, at which it does look, and lanes are only ever added. The two
    # looks were a fifth of what planning costs.
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="entries", db_index=False, db_constraint=False)
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    own_lane = models.BooleanField(default=False, help_text="the trigger's own override: an edit of the job leaves it")
    state = models.SmallIntegerField(choices=State.choices, default=State.READY)
    available_at = models.DateTimeField()
    attempt = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField()
    losses = models.PositiveIntegerField(default=0)
    max_losses = models.PositiveIntegerField()
    lease_seconds = models.FloatField()
    timeout_seconds = models.FloatField()
    holder = models.ForeignKey(
        RunnerInstance, on_delete=models.PROTECT, null=True, blank=True, related_name="claims", db_index=False
    )
    claimed_at = models.DateTimeField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True)
    log_bytes = models.BigIntegerField(default=0)
    waits_since = models.DateTimeField(
        null=True, blank=True, help_text="gated: when it was let wait; null: a fire that has yet to fall due"
    )
    passed_over_at = models.DateTimeField(
        null=True, blank=True, help_text="gated: it had its slots, nobody claimed it, and others waited"
    )

    class Meta:
        verbose_name_plural = "queue entries"
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    state__in=[3, 4],
                    holder__isnull=False,
                    claimed_at__isnull=False,
                    lease_expires_at__isnull=False,
                    attempt__gte=1,
                )
                | Q(
                    state__in=[0, 1, 2],
                    holder__isnull=True,
                    claimed_at__isnull=True,
                    lease_expires_at__isnull=True,
                    deadline_at__isnull=True,
                ),
                name="queue_entry_held_or_waiting",
            ),
        ]
        indexes = [
            # Serves the claim: the oldest due of a lane, and the wake-up (the next to fall due). The run is in it for
            # those that fall due at one instant: their order is then read, not sorted at every claim.
            models.Index(fields=["lane", "available_at", "run"], condition=Q(state=0), name="queue_entry_claimable"),
            # Serves the reaper: leases that ran out, oldest first.
            models.Index(fields=["lease_expires_at"], condition=Q(state__in=[3, 4]), name="queue_entry_by_lease"),
            # Serves the reaper: deadlines that have passed, oldest first.
            models.Index(fields=["deadline_at"], condition=Q(state=3), name="queue_entry_by_deadline"),
            # Serves poll, takeover and presence: what an instance holds.
            models.Index(fields=["holder"], condition=Q(state__in=[3, 4]), name="queue_entry_by_holder"),
            # Serves the timer: when the next run of a limited job falls due.
            models.Index(fields=["lane", "available_at"], condition=Q(state=1), name="queue_entry_gated"),
            # Serves queue depth, admit, replan and pause: what of a job waits.
            models.Index(fields=["job", "available_at"], condition=Q(state__in=[0, 1, 2]), name="queue_entry_waiting"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.State(self.state).name.lower()}"


class LiteralIn(In):
    """``IN`` with its numbers in the statement's text, ascending. Of bound values SQLite does not see that they are the
    condition of a partial index, and reads the whole table."""

    def batch_process_rhs(self, compiler, connection, rhs=None):
        _, values = super().batch_process_rhs(compiler, connection, rhs)
        return tuple(str(int(value)) for value in sorted(values)), ()


QueueEntry._meta.get_field("state").register_lookup(LiteralIn)


class Slot(models.Model):
    """One unit of a budget in use. ``budget`` is ``job:ID``, ``group:ID`` or ``tenant:SLUG``; ``n`` counts from 0."""

    budget = models.CharField(max_length=100)
    n = models.PositiveIntegerField()
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="slots", db_index=False)
    admitted_at = models.DateTimeField()

    class Meta:
        constraints = [
            # The database refuses run n+1. Serves the search for a free slot.
            models.UniqueConstraint(fields=["budget", "n"], name="slot_one_run_per_number"),
            # Serves giving a run's slots back.
            models.UniqueConstraint(fields=["run", "budget"], name="slot_one_per_run_and_budget"),
        ]
        indexes = [
            # Serves the search for runs that were admitted long ago and that nobody claimed.
            models.Index(fields=["admitted_at"], name="slot_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.budget} #{self.n}"
