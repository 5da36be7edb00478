"""Guards whose removal no test saw, found by removing them: what alerts say, and what lists say of what waits."""

from __future__ import annotations

from tests.mutations.record import Mutation

DELIVERY = "tests/scheduler/alerts/test_delivery.py::"
ORDER = "tests/scheduler/alerts/test_order.py::"
ALERT_PAGES = "tests/scheduler/dashboard/test_alerts.py::"
REASONS = "tests/scheduler/dashboard/test_run_reasons.py::"
CONDITIONS = "tests/scheduler/alerts/test_conditions.py::"
EXPLAIN = "tests/scheduler/api/test_explain.py::"
SENDER = "scheduler/services/alerts/deliver.py"
WAITS = "scheduler/queries/waits.py"


def _one(name: str, mechanism: str, file: str, old: str, new: str, red: str, database: str = "both") -> Mutation:
    return Mutation(name=name, mechanism=mechanism, file=file, old=old, new=new, red=[red], database=database)


RECORDS = [
    _one(
        "mail-errors-are-codes",
        "Of what a mail server said nothing but its code is kept: it may quote what it was told, and so a password.",
        "scheduler/services/alerts/mail_process.py",
        "({type(error).__name__}{code})",
        "({error}{code})",
        DELIVERY + "test_a_mail_server_that_fails_and_recovers_takes_each_mail_once",
    ),
    _one(
        "mail-begins-tls-or-nothing",
        "A mail server with which TLS is to begin, and does not, is told nothing.",
        "scheduler/services/alerts/mail_process.py",
        '    if server["use_tls"]:\n        connection.starttls(context=tls)\n',
        "",
        DELIVERY + "test_a_mail_server_that_is_to_begin_tls_and_does_not_is_told_nothing",
    ),
    _one(
        "ends-are-looked-at-behind-their-beginnings",
        "An end that waits for its beginning is due behind it: it does not come first again and again.",
        SENDER,
        "begun.next_at + _TICK",
        "begun.next_at",
        ORDER + "test_an_end_that_waits_is_looked_at_behind_its_beginning",
    ),
    _one(
        "outcomes-of-what-is-over-come-too-late",
        "An alert that has failed for good stays so, whatever its last sender says afterwards.",
        SENDER,
        ", attempt=sending.attempt, state=Alert.State.WAITING)",
        ", attempt=sending.attempt)",
        DELIVERY + "test_what_kills_its_sender_every_time_has_failed_at_last",
    ),
    _one(
        "alerts-page-rules-of-the-tenant",
        "The page of alerts shows the rules of the tenant that is asked for.",
        "scheduler/dashboard/alerts.py",
        "for rule in rule_list(tenant=tenant or None, limit=MOST)",
        "for rule in rule_list(tenant=None, limit=MOST)",
        ALERT_PAGES + "test_rules_channels_and_snoozes_of_each_tenant_are_made_and_shown",
    ),
    _one(
        "alerts-page-log-of-the-tenant",
        "The log of alerts is that of the tenant that is asked for.",
        "scheduler/dashboard/alerts.py",
        "alert_list(tenant=tenant or None,",
        "alert_list(tenant=None,",
        ALERT_PAGES + "test_rules_channels_and_snoozes_of_each_tenant_are_made_and_shown",
    ),
    _one(
        "full-arrays-lead-nowhere",
        "An array that is full has no link to where its look would have ended: that would leave runs out.",
        "scheduler/api/views/executions.py",
        "rows if reached is None or len(rows) == limit else",
        "rows if reached is None else",
        "tests/scheduler/api/test_run_filters.py::test_a_filter_without_an_index_looks_back_in_steps_and_loses_nothing",
    ),
    _one(
        "left-out-is-counted-among-few",
        "What a replay of many leaves out is counted among so many of the newest, and no more are read.",
        "scheduler/queries/bulk.py",
        '"job__deleted_at")[: LOOKED_AT + 1])',
        '"job__deleted_at"))',
        REASONS + "test_all_that_match_says_what_it_leaves_out_and_why",
    ),
    _one(
        "lists-mind-the-maintenance-that-is-on",
        "A maintenance that is over keeps nothing in the lists from starting.",
        WAITS,
        "Maintenance.objects.filter(is_on=True)",
        "Maintenance.objects.all()",
        REASONS + "test_a_run_that_waits_says_why_in_the_list_and_on_the_page_of_its_job",
    ),
    _one(
        "lists-say-nothing-of-what-was-claimed-meanwhile",
        "A run that is claimed between the list and its notes waits for nothing.",
        WAITS,
        "entry is not None and entry.state in (State.READY, State.GATED, State.HELD)",
        "entry is not None",
        REASONS + "test_a_run_that_is_claimed_while_the_list_is_made_waits_for_nothing",
    ),
    _one(
        "what-is-held-waits-for-no-place",
        "Runners that are full keep only what could be claimed from starting.",
        WAITS,
        "entry.state == State.READY and entry.available_at <= now",
        "entry.available_at <= now",
        EXPLAIN + "test_runners_with_no_place_free_are_why_a_due_run_waits",
    ),
    _one(
        "drained-runners-of-others-are-nobodys",
        "What the drained runners of another tenant have is no reason, and not told.",
        WAITS,
        "if t.tenant in (None, tenant) and t.is_drained))",
        "if t.is_drained))",
        EXPLAIN + "test_runners_that_are_drained_take_nothing",
    ),
    _one(
        "nothing-that-is-over-takes-too-long",
        "A run that is over and whose handler winds down takes no longer than expected.",
        "scheduler/queries/alert_conditions.py",
        "state__in=[3, 4], state=QueueEntry.State.CLAIMED, claimed_at",
        "state__in=[3, 4], claimed_at",
        CONDITIONS + "test_a_run_that_takes_longer_than_expected_is_told_while_it_runs_and_when_it_has_ended",
    ),
    _one(
        "what-waits-for-a-slot-is-not-missed",
        "A due run of a limited job that waits for its turn is no fire that did not start.",
        "scheduler/queries/alert_conditions.py",
        "state__in=[0, 1, 2], state=QueueEntry.State.READY",
        "state__in=[0, 1, 2]",
        CONDITIONS + "test_a_due_run_that_nobody_takes_is_told_after_its_grace",
    ),
    _one(
        "some-jobs-with-letters-are-named",
        "An alert about letters names so many of their jobs, those with most.",
        "scheduler/queries/alert_conditions.py",
        "key=lambda item: (-item[1], item[0]))[:MOST_NAMED]",
        "key=lambda item: (-item[1], item[0]))",
        CONDITIONS + "test_of_many_jobs_with_letters_those_with_most_are_named",
    ),
    _one(
        "flapping-tells-the-takeovers-of-its-window",
        "An alert about a runner that flaps counts the takeovers of the last minutes alone.",
        "scheduler/queries/alert_conditions.py",
        "deposed_at__gt=now - FLAPPING_WINDOW, runner__runner_id__in",
        "deposed_at__isnull=False, runner__runner_id__in",
        CONDITIONS + "test_a_runner_that_flaps_is_told_to_the_rules_of_its_tenant",
    ),
]
