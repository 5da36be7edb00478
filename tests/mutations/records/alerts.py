"""Alerts: each cause once, one sender at a time, nobody's way blocked, no secret shown."""

from tests.mutations.record import Mutation

CAUSES = "tests/scheduler/alerts/test_causes.py::"
DELIVERY = "tests/scheduler/alerts/test_delivery.py::"
DEFINITIONS = "tests/scheduler/alerts/test_definitions.py::"
ORDER = "tests/scheduler/alerts/test_order.py::"
FINDER = "scheduler/services/alerts/causes.py"
LOOKS = "scheduler/queries/alert_conditions.py"
SENDER = "scheduler/services/alerts/deliver.py"
WATCH = "scheduler/services/alerts/watch.py"
TRANSPORT = "scheduler/services/alerts/transports.py"

RECORDS = [
    Mutation(
        name="alert-with-the-verdict",
        mechanism="An alert is written in the transaction in which a run fails for good.",
        file="scheduler/services/queue.py",
        old="    if told:\n        tell_of_failures(told, now)\n",
        new="",
        red=[
            CAUSES + "test_a_run_that_failed_for_good_is_told_with_what_it_died_of",
            CAUSES + "test_what_is_buried_by_a_claim_or_the_reaper_is_told_too",
        ],
    ),
    Mutation(
        name="alert-rules-of-the-tenant",
        mechanism="A rule tells of its own tenant's jobs.",
        file=FINDER,
        old="        if rule.tenant == run.tenant\n        and is_about(",
        new="        if is_about(",
        red=[CAUSES + "test_nobody_is_told_of_what_is_not_his"],
    ),
    Mutation(
        name="alert-silence-once",
        mechanism="A silence that is told goes on as the same one.",
        file=LOOKS,
        old="    yield since.isoformat(), Condition(since, detail",
        new="    yield now.isoformat(), Condition(since, detail",
        red=[CAUSES + "test_a_silence_is_told_once_after_its_grace_and_its_end_once"],
    ),
    Mutation(
        name="alert-silence-by-passes",
        mechanism="A materializer lives by the passes that it finishes, and no other process counts.",
        file=LOOKS,
        old='pulse().ticks.get("materialize")',
        new="max(pulse().ticks.values(), default=None)",
        red=[CAUSES + "test_one_materializer_of_many_is_enough_and_other_processes_are_none"],
    ),
    Mutation(
        name="alert-claim-is-guarded",
        mechanism="Whoever claims an alert makes it nobody else's for its lease.",
        file=SENDER,
        old='began_at=now, next_at=now + LEASE, held="")',
        new='began_at=now, held="")',
        red=[
            DELIVERY + "test_what_a_dead_sender_had_is_sent_after_its_lease_with_the_same_id",
            DELIVERY + "test_who_lost_an_alert_that_is_being_sent_again_says_nothing_about_it",
        ],
    ),
    Mutation(
        name="alert-outcome-of-its-attempt",
        mechanism="Who lost an alert to another sender writes no outcome.",
        file=SENDER,
        old="pk=sending.alert_id, attempt=sending.attempt, state=",
        new="pk=sending.alert_id, state=",
        red=[DELIVERY + "test_who_lost_an_alert_that_is_being_sent_again_says_nothing_about_it"],
    ),
    Mutation(
        name="alert-one-claims-at-a-time",
        mechanism="Of two that claim an alert at once one has it; the other looks again, and sees what it throttles.",
        file=SENDER,
        old="mine = Alert.objects.filter(pk=alert.pk, attempt=alert.attempt, next_at__lte=now)",
        new="mine = Alert.objects.filter(pk=alert.pk)",
        database="postgresql",
        red=[DELIVERY + "test_two_alerts_of_a_job_that_are_claimed_at_once_are_one_that_is_said"],
    ),
    Mutation(
        name="alert-attempts-end",
        mechanism="What kills its sender every time fails at last.",
        file=SENDER,
        old="    if alert.attempt >= ATTEMPTS_MOST:",
        new="    if False:",
        red=[DELIVERY + "test_what_kills_its_sender_every_time_has_failed_at_last"],
    ),
    Mutation(
        name="alert-channel-waits-as-one",
        mechanism="A channel that does not answer is tried with one alert, and holds up no other channel.",
        file=SENDER,
        old="        waiting.update(next_at=now + wait)\n",
        new="",
        red=[DELIVERY + "test_a_receiver_that_hangs_is_tried_with_one_alert_and_holds_up_no_other_channel"],
    ),
    Mutation(
        name="alert-webhook-signed",
        mechanism="What a webhook gets is signed with its channel's secret.",
        file="scheduler/domain/alerts.py",
        old='b"%d." % seconds + body',
        new='b"%d." % seconds',
        red=[DELIVERY + "test_a_webhook_gets_what_happened_signed_and_once"],
    ),
    Mutation(
        name="alert-webhook-guarded",
        mechanism="A webhook connects to nothing that the rule of addresses closes.",
        file=TRANSPORT,
        old="HostRules.of(settings.CRONIQ_ALERT_HTTP_ALLOW)",
        new="HostRules()",
        red=[DELIVERY + "test_a_webhook_reaches_nothing_but_what_the_site_allows"],
    ),
    Mutation(
        name="alert-delivered-by-2xx",
        mechanism="Nothing but a 2xx is a delivery: no refusal, no redirect.",
        file=TRANSPORT,
        old="if not 200 <= answer.status < 300:",
        new="if not 200 <= answer.status < 600:",
        red=[DELIVERY + "test_a_webhook_that_fails_and_recovers_gets_each_alert_once_more_with_its_id"],
    ),
    Mutation(
        name="alert-target-masked",
        mechanism="Of a webhook's URL no more than its host is shown.",
        file="scheduler/domain/alerts.py",
        old='return f"{parts.scheme}://{parts.netloc}/***"',
        new="return target",
        red=[
            DEFINITIONS + "test_the_secret_of_a_webhook_is_told_once_and_the_path_of_its_url_never",
            DELIVERY + "test_a_webhook_that_fails_and_recovers_gets_each_alert_once_more_with_its_id",
        ],
    ),
    Mutation(
        name="alert-end-after-its-beginning",
        mechanism="An end waits until its beginning has its outcome, and is not told where that was not.",
        file=SENDER,
        old="    if alert.event == Alert.Event.RECOVERED:\n",
        new="    if False:\n",
        red=[
            ORDER + "test_an_end_waits_for_its_beginning_that_a_receiver_did_not_take",
            ORDER + "test_an_end_waits_while_its_beginning_is_being_sent",
            ORDER + "test_an_end_is_not_said_where_its_beginning_was_held_back_when_it_was_sent",
        ],
    ),
    Mutation(
        name="alert-over-is-not-held",
        mechanism="What was over before anybody sent it is not told when a snooze ends.",
        file=SENDER,
        old=" or (alert.ended_at is not None and alert.event not in MOMENTS)",
        new="",
        red=[ORDER + "test_what_was_over_before_anybody_sent_it_is_not_said_when_a_snooze_ends"],
    ),
    Mutation(
        name="alert-end-of-the-one-said",
        mechanism="Of failures that nobody has tried yet the end is that of the first, which is the one that is said.",
        file=WATCH,
        old="            if alert.attempt or whose not in told:\n                told[whose] = alert\n",
        new="            told[whose] = alert\n",
        red=[ORDER + "test_the_end_of_failures_is_that_of_the_one_that_is_said"],
    ),
    Mutation(
        name="alert-end-waits-while-switched-off",
        mechanism="What began before a rule was switched off is found to be over afterwards, and told.",
        file=WATCH,
        old="            continue  # it is found to be over afterwards\n",
        new="            pass\n",
        red=[ORDER + "test_the_end_of_what_was_told_is_told_when_a_rule_is_switched_on_again"],
    ),
    Mutation(
        name="alert-failures-stand-for-earlier-ones",
        mechanism="A look at failures costs as much as jobs fail, not as often as they did.",
        file=WATCH,
        old="        Alert.objects.filter(pk__in=some, ended_at__isnull=True).update(ended_at=now)\n    return []",
        new="        pass\n    return []",
        red=[ORDER + "test_a_look_costs_as_much_as_jobs_fail_however_often_they_did"],
    ),
    Mutation(
        name="alert-unwelcome-message",
        mechanism="A message that a receiver never takes holds up no other one of its channel.",
        file=SENDER,
        old="        if is_of_it_alone:\n            return True\n",
        new="",
        red=[DELIVERY + "test_a_message_that_a_receiver_never_takes_holds_up_no_other_one"],
    ),
    Mutation(
        name="alert-channel-decides-one-at-a-time",
        mechanism="An alert that is seen late is throttled by what another sender says at that moment.",
        file=SENDER,
        old="            AlertChannel.objects.select_for_update(no_key=True).get(pk=alert.channel_id)\n",
        new="",
        red=[DELIVERY + "test_an_alert_that_is_seen_late_by_one_sender_is_throttled_by_what_another_one_says"],
        database="postgresql",
    ),
]
