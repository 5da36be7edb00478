"""Alerts of what lasts: found once, ended once; exemptions and quiet days; apprise kept within its bounds."""

from tests.mutations.record import Mutation

CONDITIONS = "tests/scheduler/alerts/test_conditions.py::"
EXEMPTIONS = "tests/scheduler/alerts/test_exemptions.py::"
APPRISE = "tests/scheduler/alerts/test_apprise.py::"
DEFINITIONS = "tests/scheduler/alerts/test_definitions.py::"
PAGES = "tests/scheduler/dashboard/test_alerts.py::"
WATCH = "scheduler/services/alerts/watch.py"
LOOKS = "scheduler/queries/alert_conditions.py"
SENDER = "scheduler/services/alerts/deliver.py"
PROCESS = "scheduler/services/alerts/apprise_process.py"

RECORDS = [
    Mutation(
        name="alert-lasting-once",
        mechanism="What lasts and was told is not told again.",
        file=WATCH,
        old="if name not in going_on and seen.is_ripe",
        new="if seen.is_ripe",
        red=[CONDITIONS + "test_letters_are_told_from_their_threshold_on_and_once_while_they_are_that_many"],
    ),
    Mutation(
        name="alert-rule-looked-for-by-one",
        mechanism="Of many reapers one looks for a rule; a rule is not looked for again at once.",
        file=WATCH,
        old="if AlertRule.objects.filter(stale, pk=pk, deleted_at__isnull=True).update(looked_at=now + LOOK_MOST):",
        new="if True:",
        red=[CONDITIONS + "test_a_rule_is_looked_for_every_few_seconds_and_a_change_of_many_jobs_costs_no_more"],
    ),
    Mutation(
        name="alert-broken-rule-alone",
        mechanism="A rule that breaks stops only itself.",
        file=WATCH,
        old='            _log.exception("alert rule %d cannot be looked for", pk)\n',
        new="            raise\n",
        red=[CONDITIONS + "test_a_rule_that_breaks_stops_only_itself"],
    ),
    Mutation(
        name="alert-recovery-after-the-failure",
        mechanism="A success that ended before a job failed is no recovery.",
        file=WATCH,
        old=" if at > alerts[-1].created_at]",
        new="]",
        red=[CONDITIONS + "test_a_job_that_succeeds_again_is_told_once_however_often_it_failed"],
    ),
    Mutation(
        name="alert-recovery-to-who-was-told",
        mechanism="The end of what nobody was told is told to nobody.",
        file=WATCH,
        old=" and alert.state in _SAID:",
        new=":",
        red=[CONDITIONS + "test_the_end_of_what_nobody_was_told_is_told_to_nobody"],
    ),
    Mutation(
        name="alert-held-back-and-over",
        mechanism="What ends while it is held back is not said afterwards.",
        file=WATCH,
        old="            .filter(attempt=0, state=State.WAITING)\n",
        new="            .filter(attempt=99, state=State.WAITING)\n",
        red=[EXEMPTIONS + "test_what_ends_within_a_snooze_is_not_said_and_neither_is_its_end"],
    ),
    Mutation(
        name="alert-digest-once-a-week",
        mechanism="A week is told once.",
        file="scheduler/services/alerts/digest.py",
        old='    cause = f"digest:{week}"\n',
        new='    cause = f"digest:{week}:{now.timestamp()}"\n',
        red=[CONDITIONS + "test_the_week_is_told_on_monday_morning_once"],
    ),
    Mutation(
        name="alert-missed-by-grace",
        mechanism="A fire is late by the grace of its own job.",
        file=LOOKS,
        old="is_late = now - since > exemptions.grace_of(rule, job.job_key)",
        new="is_late = True",
        red=[EXEMPTIONS + "test_an_override_is_in_the_place_of_what_the_rule_says_for_its_jobs"],
    ),
    Mutation(
        name="alert-runner-of-the-tenant",
        mechanism="Another tenant's runner does not make up for a capability that is missing.",
        file=LOOKS,
        old="        if tenant in (None, rule.tenant):\n",
        new="        if True:\n",
        red=[CONDITIONS + "test_a_capability_that_no_runner_has_is_told_after_its_grace"],
    ),
    Mutation(
        name="alert-snooze-holds",
        mechanism="What lasts longer than a snooze is said then.",
        file=SENDER,
        old="return Alert.State(hold.why) if is_past else hold",
        new="return hold.why",
        red=[
            EXEMPTIONS + "test_what_lasts_longer_than_a_snooze_is_said_then",
            EXEMPTIONS + "test_on_days_that_its_calendar_closes_a_rule_is_quiet",
        ],
    ),
    Mutation(
        name="alert-exemption-of-its-tenant",
        mechanism="An exemption is of its tenant's rules.",
        file="scheduler/queries/alert_exemptions.py",
        old="return row.tenant == rule.tenant and",
        new="return",
        red=[EXEMPTIONS + "test_a_snooze_is_of_what_it_says"],
    ),
    Mutation(
        name="alert-exemption-ended-lets-out",
        mechanism="What a snooze held is looked at as soon as it is ended.",
        file="scheduler/services/alerts/exemptions.py",
        old="        held.update(next_at=now)\n",
        new="",
        red=[EXEMPTIONS + "test_a_snooze_that_is_ended_lets_out_at_once_what_it_held"],
    ),
    Mutation(
        name="alert-quiet-by-day",
        mechanism="A day on which the calendar opens at all is not quiet.",
        file="calendars/domain/closed_days.py",
        old="    if next(gate.between(start, end), None) is not None:\n",
        new="    if gate.decision(at).open:\n",
        red=[EXEMPTIONS + "test_the_days_that_a_calendar_closes"],
    ),
    Mutation(
        name="alert-no-throttled-recovery",
        mechanism="A throttle holds back no end and no digest.",
        file=SENDER,
        old="    if not throttle or alert.event in _FREE:\n",
        new="    if not throttle:\n",
        red=[EXEMPTIONS + "test_a_throttle_holds_back_no_end_and_no_digest"],
    ),
    Mutation(
        name="alert-apprise-guarded-at-sockets",
        mechanism="The process of apprise connects to nothing that the rule of addresses closes.",
        file=PROCESS,
        old="    guard.close()\n",
        new="",
        red=[APPRISE + "test_what_is_closed_is_not_reached_and_the_log_says_so_without_the_url"],
    ),
    Mutation(
        name="alert-apprise-knows-nothing",
        mechanism="The process of apprise is given nothing of the server's environment.",
        file="scheduler/services/alerts/transports.py",
        old="for name in _PASSED_ON if name in os.environ}",
        new="for name in os.environ}",
        red=[APPRISE + "test_it_knows_nothing_of_this_process"],
    ),
    Mutation(
        name="alert-apprise-masked",
        mechanism="Of a URL of apprise no more than its scheme is shown.",
        file="scheduler/domain/alerts.py",
        old='if parts.scheme in ("http", "https") else f"{parts.scheme}://***"',
        new='if parts.scheme in ("http", "https") else target',
        red=[
            DEFINITIONS + "test_nothing_but_the_service_is_shown_of_an_apprise_channel",
            APPRISE + "test_what_is_closed_is_not_reached_and_the_log_says_so_without_the_url",
        ],
    ),
    Mutation(
        name="alert-exemption-says-why",
        mechanism="An exemption without a reason is refused.",
        file="scheduler/services/alerts/exemptions.py",
        old="    if not note.strip():\n",
        new="    if note is None:\n",
        red=[DEFINITIONS + "test_what_is_no_exemption_is_refused_by_its_field"],
    ),
    Mutation(
        name="alert-deleted-rules-not-looked-for",
        mechanism="Deleted rules are no part of a pass.",
        file=WATCH,
        old="AlertRule.objects.filter(stale, deleted_at__isnull=True).order_by",
        new="AlertRule.objects.filter(stale).order_by",
        red=["tests/scheduler/alerts/test_whose.py::test_deleted_rules_keep_no_other_one_from_being_looked_for"],
    ),
    Mutation(
        name="alert-snooze-end-hurries-nothing-else",
        mechanism="The end of a snooze lets out what it held, and nothing that is tried again in a while.",
        file="scheduler/services/alerts/exemptions.py",
        old="held=Alert.State.SNOOZED, next_at__gt=now",
        new="next_at__gt=now",
        red=[EXEMPTIONS + "test_the_end_of_a_snooze_hurries_nothing_else"],
    ),
    Mutation(
        name="alert-admin-tests-what-is-there",
        mechanism="The admin sends a test over the selected channels that are not deleted.",
        file="scheduler/admin/alerts.py",
        old="queryset.filter(deleted_at__isnull=True)",
        new="queryset",
        red=[DEFINITIONS + "test_in_the_admin_a_test_goes_over_the_selected_channels_that_are_there"],
    ),
]
