"""Alerts as somebody attacked them: URLs that are several, storms, looks that others overtake."""

from tests.mutations.record import Edit, Mutation

APPRISE = "tests/scheduler/alerts/test_apprise.py::"
ATTACKED = "tests/scheduler/alerts/test_attacked.py::"
DELIVERY = "tests/scheduler/alerts/test_delivery.py::"
CLOSED = "tests/scheduler/alerts/test_closed_channels.py::"
DEFINITIONS = "tests/scheduler/alerts/test_definitions.py::"
SENDER = "scheduler/services/alerts/deliver.py"
WATCH = "scheduler/services/alerts/watch.py"
PROCESS = "scheduler/services/alerts/apprise_process.py"
LOOKS = "scheduler/queries/alert_conditions.py"
READY = """\
    early = list(QueueEntry.objects.filter(available_at__lt=late).values("job").annotate(at=Min("available_at")))
"""
ENDS = (
    "tests/scheduler/dashboard/test_alerts.py::test_an_end_says_what_the_mail_says_and_leads_to_the_run_that_succeeded"
)
SILENT = "tests/scheduler/alerts/test_silent_channels.py::"

RECORDS = [
    Mutation(
        name="alert-apprise-one-service",
        mechanism="A URL of apprise is one service: of a list only the first scheme was looked at.",
        file=PROCESS,
        old="apprise.Apprise(service, asset=asset).notify(",
        new='apprise.Apprise(said["url"], asset=asset).notify(',
        red=[APPRISE + "test_a_channel_is_one_service_however_many_its_url_names"],
    ),
    Mutation(
        name="alert-apprise-opens-no-file",
        mechanism="What a URL of apprise names of this machine's files is not opened.",
        file=PROCESS,
        old="or _is_known(args[0])):",
        new="or args[0]):",
        red=[APPRISE + "test_what_is_closed_is_not_reached_and_the_log_says_so_without_the_url[its files]"],
    ),
    Mutation(
        name="alert-apprise-tells-no-machine",
        mechanism="The process of apprise writes nothing into this machine's log.",
        file=PROCESS,
        old="elif event in _TELLS:",
        new="elif event == ():",
        red=[APPRISE + "test_what_is_closed_is_not_reached_and_the_log_says_so_without_the_url[the machine itself]"],
    ),
    Mutation(
        name="alert-turns-also-of-what-is-not-said",
        mechanism="A channel has had its turn with what was not to be said, too.",
        file=SENDER,
        old="        passed.add(channel_id)\n",
        new="        passed = set()\n",
        red=[ATTACKED + "test_a_channel_with_much_that_is_not_said_keeps_no_other_one_waiting"],
    ),
    Mutation(
        name="alert-frozen-sender-stops-itself",
        mechanism="Whoever stops while he has a channel stops those who send over others by no lock.",
        file=SENDER,
        old="select_for_update(no_key=True, skip_locked=True)",
        new="select_for_update(no_key=True, nowait=True)",
        red=[DELIVERY + "test_a_sender_that_stops_while_it_claims_stops_no_other_channel"],
        database="postgresql",
    ),
    Mutation(
        name="alert-given-up-by-attempts",
        mechanism="The first failure after a day on which nobody sent gives nothing up.",
        file=SENDER,
        old=" and sending.channel.failures + 1 >= ATTEMPTS_MOST:",
        new=":",
        red=[CLOSED + "test_after_a_day_on_which_nobody_sent_the_first_failure_gives_nothing_up"],
    ),
    Mutation(
        name="alert-digest-switched-off",
        mechanism="A digest that is switched off is not told.",
        file=WATCH,
        old='[] if exemptions.is_disabled(rule, "") else week_told(rule, now)',
        new="week_told(rule, now)",
        red=[ATTACKED + "test_a_digest_that_is_switched_off_is_told_when_it_is_switched_on_again"],
    ),
    Mutation(
        name="alert-of-another-kind-is-over",
        mechanism="What a rule told goes on no more when it becomes one of another kind.",
        file="scheduler/services/alerts/definitions.py",
        old="                end_untold(old, now)\n",
        new="                pass\n",
        red=[ATTACKED + "test_what_a_rule_of_another_kind_told_is_over_and_what_it_held_back_is_not_said"],
    ),
    Mutation(
        name="alert-look-locks-nothing",
        mechanism="Whoever looks what is late keeps nobody from writing: on SQLite nobody could claim.",
        file=WATCH,
        old="                    written += _write(rule, look(rule, now, exemptions), now, exemptions)\n",
        new="                    with write_transaction():\n"
        "                        AlertRule.objects.filter(pk=pk).update(looked_at=now + LOOK_MOST)\n"
        "                        written += _write(rule, look(rule, now, exemptions), now, exemptions)\n",
        red=[ATTACKED + "test_who_looks_keeps_nobody_from_writing_meanwhile"],
        database="sqlite",
    ),
    Mutation(
        name="alert-look-is-ones-own",
        mechanism="A look that takes longer than the time between looks is overtaken by none: else nobody would write.",
        file=WATCH,
        old="LOOK_MOST = timedelta(seconds=50)",
        new="LOOK_MOST = timedelta(0)",
        red=[ATTACKED + "test_a_look_that_takes_long_is_overtaken_by_nobody"],
    ),
    Mutation(
        name="alert-look-ends",
        mechanism="Whoever has looked lets the next look come when it is due.",
        file=WATCH,
        old="looked_at=now + LOOK_MOST).update(looked_at=now)",
        new="looked_at=now + LOOK_MOST).exists()",
        red=[ATTACKED + "test_a_look_that_takes_long_is_overtaken_by_nobody"],
    ),
    Mutation(
        name="alert-look-overtaken",
        mechanism="Whoever was overtaken while he looked, or looked for what a rule was, writes nothing.",
        file=WATCH,
        old="            if not same.filter(looked_at=now + LOOK_MOST):",
        new="            if not same:",
        red=[
            ATTACKED + "test_who_was_overtaken_while_he_looked_writes_nothing[who looks later]",
            ATTACKED + "test_who_was_overtaken_while_he_looked_writes_nothing[an edit]",
        ],
    ),
    Mutation(
        name="alert-missed-between-two-looks",
        mechanism="A fire that becomes a run while somebody looks is still late.",
        edits=[
            Edit(LOOKS, "    oldest: dict[int, datetime] = {}\n", f"    oldest: dict[int, datetime] = {{}}\n{READY}"),
            Edit(
                LOOKS,
                'for row in ready.order_by().values("job").annotate(at=Min("available_at")):',
                "for row in early:",
            ),
        ],
        red=[ATTACKED + "test_a_fire_that_becomes_a_run_while_somebody_looks_is_still_late"],
    ),
    Mutation(
        name="alert-channel-silent-is-told",
        mechanism="An alert channel that does not answer is told by the doctor: whoever relies on it hears nothing.",
        file="scheduler/queries/diagnostics.py",
        old="        *channel_sentences(channels),\n",
        new="",
        red=[
            SILENT + "test_a_channel_that_has_not_answered_for_a_minute_is_told_everywhere",
            "tests/scheduler/api/test_diagnostics.py::test_the_api_and_the_doctor_tell_the_same",
        ],
    ),
    Mutation(
        name="alert-end-says-what-is-so-again",
        mechanism="The log of alerts says of an end what the mail says, not that a failure is over.",
        file="scheduler/dashboard/alert_fields.py",
        old='RECOVERIES.get(detail.get("of", ""), EVENTS[event])',
        new="EVENTS[event]",
        red=[ENDS],
    ),
    Mutation(
        name="alert-end-leads-to-the-run-that-succeeded",
        mechanism="The log of alerts leads from an end to the run that succeeded, not to the one that failed.",
        file="scheduler/dashboard/alert_fields.py",
        old='detail.get("succeeded", run_id)',
        new="run_id",
        red=[ENDS],
    ),
    Mutation(
        name="reaper-silent-no-alert-is-sent",
        mechanism="Where no reaper is at work the doctor and Now say that no alert is sent either.",
        file="scheduler/queries/trouble.py",
        old='        if kind == "reap":\n',
        new="        if False:\n",
        red=["tests/scheduler/api/test_diagnostics.py::test_the_api_and_the_doctor_tell_the_same"],
    ),
    Mutation(
        name="reaper-silent-no-alert-is-sent-says-the-banner",
        mechanism="The banner of a reaper that is not at work says that no alert is sent.",
        file="scheduler/dashboard/frame.py",
        old='"and no alert is sent."',
        new='""',
        red=[
            "tests/scheduler/dashboard/test_frame.py::test_a_worker_that_stopped_in_good_order_or_never_was_stands_still_at_once"
        ],
    ),
    Mutation(
        name="alert-channel-silent-is-on-now",
        mechanism="An alert channel that does not answer is something to look at on Now.",
        file="scheduler/queries/situation.py",
        old="(*kinds, self.channels, self.untaken)",
        new="(*kinds, self.untaken)",
        red=[SILENT + "test_a_channel_that_has_not_answered_for_a_minute_is_told_everywhere"],
    ),
    Mutation(
        name="alert-channel-silent-is-for-who-sees-alerts",
        mechanism="Now names alert channels to those alone who may see alerts.",
        file="scheduler/dashboard/now.py",
        old="with_alerts=may_see_alerts",
        new="with_alerts=True",
        red=[SILENT + "test_who_may_not_see_alerts_is_told_of_no_channel"],
    ),
    Mutation(
        name="alert-channel-silent-of-its-tenant",
        mechanism="What waits for an alert channel is what is to be told over it, not over all.",
        file="scheduler/sql/gauges.py",
        old="LEFT JOIN scheduler_alert a ON a.channel_id = c.id AND a.next_at",
        new="LEFT JOIN scheduler_alert a ON a.next_at",
        red=[SILENT + "test_each_tenants_channel_is_told_with_what_waits_for_it"],
    ),
    Mutation(
        name="alert-channel-silent-for-a-minute",
        mechanism="A channel that failed a moment ago is none that does not answer.",
        file="scheduler/queries/silent_channels.py",
        old="FAILURES_TOLD = 4\n",
        new="FAILURES_TOLD = 2\n",
        red=[SILENT + "test_a_channel_that_has_not_answered_for_a_minute_is_told_everywhere"],
    ),
    Mutation(
        name="alerts-waiting-are-measured",
        mechanism="Alerts that are held back on purpose, or have their outcome, do not count as waiting.",
        file="scheduler/sql/gauges.py",
        old="scheduler_alert WHERE next_at IS NOT NULL AND held = '')",
        new="scheduler_alert)",
        red=[
            SILENT + "test_what_has_its_outcome_or_is_held_back_on_purpose_waits_for_nobody",
            "tests/scheduler/metrics/test_plans.py::test_what_waits_to_be_told_is_read_by_index[ALERTS]",
        ],
    ),
    Mutation(
        name="alert-sent-before-the-end",
        mechanism="A process that is told to end waits for a slow mail: whoever left would send it once more.",
        file="scheduler/workers/alerter.py",
        old="END_SECONDS = PROCESS_SECONDS_MOST + 5\n",
        new="END_SECONDS = PROCESS_SECONDS_MOST / 2\n",
        red=[DELIVERY + "test_whoever_is_told_to_end_has_the_time_that_any_receiver_may_take_and_the_lease_is_longer"],
    ),
    Mutation(
        name="alert-exemption-of-a-second",
        mechanism="An exemption that would be over when it begins is refused, not a fault.",
        file="scheduler/services/alerts/exemptions.py",
        old=", least=SHORTEST_SECONDS)",
        new=")",
        red=[DEFINITIONS + "test_what_is_no_exemption_is_refused_by_its_field[body5-duration]"],
    ),
]
