"""Guards whose removal no test saw: alerts of others and their bounds, settings, streams of logs, the admin."""

from tests.mutations.record import Edit, Mutation

ODD = "tests/scheduler/alerts/test_second_look.py::"
WHOSE = "tests/scheduler/alerts/test_whose.py::"
DEFINITIONS = "tests/scheduler/alerts/test_definitions.py::"
SETTINGS = "tests/scheduler/dashboard/test_settings.py::"
TAILS = "tests/scheduler/dashboard/test_tails.py::"
ADMIN = "tests/scheduler/test_admin_actions.py::"
CAUSES = "scheduler/services/alerts/causes.py"
SENDER = "scheduler/services/alerts/deliver.py"
WATCH = "scheduler/services/alerts/watch.py"
LOOKS = "scheduler/queries/alert_conditions.py"
LISTS = "scheduler/queries/alerts.py"
EXEMPT = "scheduler/queries/alert_exemptions.py"
DIGEST = "scheduler/services/alerts/digest.py"
STREAMS = "scheduler/dashboard/tails.py"
CLIENTS = "scheduler/dashboard/settings_clients.py"
OF_ITS_TENANT = WHOSE + "test_a_rule_is_of_the_jobs_of_its_tenant_that_are_there"


def _one(name: str, mechanism: str, file: str, old: str, new: str, *red: str) -> Mutation:
    return Mutation(name=name, mechanism=mechanism, file=file, old=old, new=new, red=red)


RECORDS = [
    Mutation(
        name="alert-conditions-of-the-tenant",
        mechanism="A rule looks at the jobs of its tenant alone: late, slow, with letters, without a runner.",
        edits=[
            Edit(LOOKS, "claimed.filter(job__tenant=rule.tenant, ", "claimed.filter("),
            Edit(LOOKS, "running = live_jobs(rule.tenant)", "running = live_jobs(None)"),
            Edit(LOOKS, "waiting_letters().filter(job__tenant=rule.tenant)", "waiting_letters()"),
            Edit(LOOKS, "Job.objects.filter(tenant=rule.tenant, ", "Job.objects.filter("),
        ],
        red=[f"{OF_ITS_TENANT}[{kind}]" for kind in ("missed", "overran", "dead_letters", "no_runner")],
    ),
    Mutation(
        name="alert-conditions-of-what-is-there",
        mechanism="Runs of a deleted job are not slow, a paused or inactive one is neither late nor without a runner.",
        edits=[
            Edit(LOOKS, "claimed.filter(job__tenant=rule.tenant, job__deleted_at__isnull=True)", "claimed"),
            Edit(LOOKS, "pk__in=list(oldest), is_active=True, ", "pk__in=list(oldest), "),
            Edit(LOOKS, "is_active=True, paused_at__isnull=True)\n    rows = jobs", "is_active=True)\n    rows = jobs"),
        ],
        red=[f"{OF_ITS_TENANT}[{kind}]" for kind in ("missed", "overran", "no_runner")],
    ),
    Mutation(
        name="alert-week-of-the-tenant",
        mechanism="A digest counts the letters and the alerts of its tenant alone.",
        edits=[
            Edit(DIGEST, "Alert.objects.filter(tenant=tenant, ", "Alert.objects.filter("),
            Edit(DIGEST, "waiting_letters().filter(job__tenant=tenant)", "waiting_letters()"),
        ],
        red=[WHOSE + "test_a_week_is_of_one_tenant"],
    ),
    _one(
        "alert-success-of-the-tenant",
        "A job of another tenant that has the key of one that failed ends no failure.",
        WATCH,
        "live_jobs(rule.tenant).filter(job_key__in",
        "live_jobs(None).filter(job_key__in",
        WHOSE + "test_a_success_of_another_tenants_job_of_that_name_ends_no_failure",
    ),
    _one(
        "alert-begin-bounded",
        "What begins in one look of a rule has a bound.",
        WATCH,
        "begins[:BEGUN_MOST]",
        "begins",
        WHOSE + "test_of_many_things_that_begin_at_once_so_many_begin_in_one_look",
    ),
    _one(
        "alert-rules-of-a-pass-bounded",
        "One pass of the reaper looks for a bounded number of rules.",
        WATCH,
        'values_list("pk", flat=True)[:limit]',
        'values_list("pk", flat=True)',
        WHOSE + "test_one_pass_looks_for_so_many_rules_and_the_next_for_the_others",
    ),
    _one(
        "alert-outage-is-no-rules-fault",
        "A database that is away is told to the reaper, not logged as a fault of each rule.",
        WATCH,
        "            if is_outage(error):\n                raise\n",
        "",
        WHOSE + "test_a_database_that_is_away_is_no_fault_of_a_rule",
    ),
    _one(
        "alert-exemptions-bounded",
        "So many exemptions of a tenant are in effect at once: each delivery reads them.",
        "scheduler/services/alerts/exemptions.py",
        "if live.count() >= LIVE_MOST:",
        "if False:",
        WHOSE + "test_so_many_exemptions_of_a_tenant_are_in_effect_at_once",
    ),
    _one(
        "alert-no-exemption-of-a-deleted-rule",
        "A rule that was deleted is no rule that one can exempt.",
        "scheduler/services/alerts/exemptions.py",
        "                tenant=tenant, deleted_at__isnull=True\n",
        "                tenant=tenant\n",
        WHOSE + "test_a_rule_that_was_deleted_is_not_exempted",
    ),
    _one(
        "alert-exempt-without-a-job",
        "What is about no job is exempted only together with all jobs.",
        EXEMPT,
        'if job_key else row.job_glob == "*"',
        "if job_key else True",
        WHOSE + "test_what_is_about_no_job_is_exempted_only_with_all_jobs",
    ),
    _one(
        "alert-throttle-none",
        "No throttle may be said as it is answered: 0s.",
        "scheduler/services/alerts/definitions.py",
        '    return 0.0 if value == "0s" else seconds_of(field, value)',
        "    return seconds_of(field, value)",
        DEFINITIONS + "test_an_exemption_is_listed_while_it_is_in_effect_and_ended_once",
    ),
    _one(
        "alert-override-of-no-throttle",
        "An override may let out all that the rule's throttle would hold back.",
        EXEMPT,
        "if s is not None), rule.throttle_seconds",
        "if s), rule.throttle_seconds",
        "tests/scheduler/alerts/test_exemptions.py::"
        "test_an_override_of_the_throttle_holds_back_what_the_rule_would_say",
    ),
    _one(
        "alert-newer-override",
        "Of two overrides the newer one holds.",
        EXEMPT,
        'rows.order_by("-pk")',
        'rows.order_by("pk")',
        WHOSE + "test_of_two_overrides_the_newer_one_holds",
    ),
    _one(
        "alert-test-of-the-tenant",
        "The test of a channel is an alert of the channel's tenant.",
        "scheduler/services/alerts/definitions.py",
        "            tenant=channel.tenant,\n            event=",
        "            tenant=DEFAULT_TENANT,\n            event=",
        WHOSE + "test_a_test_of_a_channel_is_of_its_tenant",
    ),
    _one(
        "alert-ends-with-its-rule",
        "What goes on is over when its rule is deleted: nobody looks for its end, and no retention would end it.",
        "scheduler/services/alerts/definitions.py",
        "Alert.objects.filter(rule=rule, ended_at__isnull=True).update(ended_at=now)  # nobody",
        "# nobody",
        WHOSE + "test_what_goes_on_is_over_when_its_rule_is_deleted",
    ),
    _one(
        "alert-deleted-are-not-listed",
        "Channels and rules that were deleted are in no list.",
        LISTS,
        "    rows = rows.filter(deleted_at__isnull=True)\n    if tenant",
        "    if tenant",
        DEFINITIONS + "test_names_are_once_while_they_live_and_a_channel_in_use_stays",
    ),
    _one(
        "alert-ended-exemptions-are-not-listed",
        "An exemption that was ended is not listed as one in effect.",
        LISTS,
        "filter(ended_at__isnull=True, until__gt=now)",
        "filter(until__gt=now)",
        DEFINITIONS + "test_an_exemption_is_listed_while_it_is_in_effect_and_ended_once",
    ),
    Mutation(
        name="alert-numbers-are-numbers",
        mechanism="What is no number, or one of thousands of digits, is no channel, and no fault.",
        file="scheduler/api/views/alerts.py",
        old="    if not (text.isascii() and text.isdigit() and len(text) <= 18):",
        new="    if not text.isdigit():",
        red=[
            f"{DEFINITIONS}test_what_is_no_number_is_of_no_alert_channel[{which}]"
            for which in ("5000 digits", "a power of two")
        ],
    ),
    Mutation(
        name="alert-targets-are-short",
        mechanism="A mail address and a URL of apprise are of bounded length; an address is plain ASCII.",
        edits=[
            Edit("scheduler/services/alerts/definitions.py", " and len(value) <= 254 and value.isascii():", ":"),
            Edit("scheduler/domain/apprise_urls.py", " and len(value) <= URL_MOST else", " else"),
        ],
        red=[
            f"{DEFINITIONS}test_what_is_no_channel_is_refused_by_its_field[{which}]"
            for which in ("a long URL", "a long mail address", "a mail address of other letters")
        ],
    ),
    _one(
        "alert-channels-of-a-rule-bounded",
        "A rule tells a bounded number of channels.",
        "scheduler/services/alerts/definitions.py",
        "not 1 <= len(value) <= CHANNELS_MOST",
        "not 1 <= len(value)",
        DEFINITIONS + "test_what_is_no_rule_is_refused_by_its_field",
    ),
    _one(
        "alerts-need-their-own-right",
        "The page of alerts is for whoever may see alerts: to see jobs is not enough.",
        "scheduler/dashboard/alerts.py",
        "@page(needs=VIEW)",
        "@page",
        "tests/scheduler/dashboard/test_alerts.py::test_whoever_may_see_jobs_alone_sees_no_alerts",
    ),
    _one(
        "alert-errors-are-cut",
        "An alert has a bounded piece of what a run died of.",
        CAUSES,
        "run.error[:ERROR_MOST]",
        "run.error",
        ODD + "test_of_an_error_an_alert_has_so_much",
    ),
    Mutation(
        name="alert-outcomes-are-cut",
        mechanism="Of why an alert did not arrive the log keeps a bounded piece.",
        edits=[
            Edit(SENDER, "**outcome, error=error[:500])", "**outcome, error=error)"),
        ],
        red=[
            f"{ODD}test_of_why_it_did_not_arrive_the_log_keeps_so_much[{which}]"
            for which in ("tried again", "the last one")
        ],
    ),
    _one(
        "alert-what-waits-is-kept",
        "Old alerts that wait are not thrown away, and keep no other one from going.",
        CAUSES,
        "return Alert.objects.filter(next_at__isnull=True).exclude(",
        "return Alert.objects.exclude(",
        ODD + "test_old_alerts_that_wait_keep_no_older_one_from_going",
    ),
    _one(
        "alert-fault-is-an-attempt",
        "A fault while an alert is sent is an attempt that failed, and does not end the sender.",
        SENDER,
        "    except Exception as error:\n",
        "    except ZeroDivisionError as error:\n",
        ODD + "test_a_fault_while_one_is_sent_is_an_attempt_that_failed",
    ),
    _one(
        "alert-failing-channel-moves-what-waits-alone",
        "A channel that fails ends what has waited for long: it touches nothing that is young, over or held back.",
        SENDER,
        "filter(channel=channel, next_at__lte=now - DUE_MOST)",
        "filter(channel=channel, next_at__isnull=False)",
        ODD + "test_a_receiver_that_fails_moves_nothing_that_is_over_or_later_or_was_tried_before",
    ),
    _one(
        "alert-throttle-by-channel",
        "What was said over one channel holds back nothing of another.",
        SENDER,
        "job_key=alert.job_key, channel=alert.channel, began_at__gt",
        "job_key=alert.job_key, began_at__gt",
        ODD + "test_a_throttle_is_of_each_channel",
    ),
    _one(
        "alert-throttle-by-what-was-said",
        "Neither an end nor what never arrived throttles a failure.",
        SENDER,
        "said.filter(state__in=_SAID).exclude(event__in=_FREE).exists()",
        "said.exists()",
        ODD + "test_what_nobody_was_told_of_a_failure_throttles_none[an end]",
        ODD + "test_what_nobody_was_told_of_a_failure_throttles_none[what never arrived]",
    ),
    _one(
        "alert-broken-calendar-is-not-quiet",
        "A calendar that is broken keeps no alert from being told.",
        SENDER,
        "    except InvalidField:\n        return None",
        "    except ZeroDivisionError:\n        return None",
        ODD + "test_a_calendar_that_is_broken_keeps_nothing_quiet",
    ),
    _one(
        "alert-dropped-is-not-held",
        "What was held back and is dropped then is not shown as held back.",
        SENDER,
        'next_at=None, finished_at=now, held="")',
        "next_at=None, finished_at=now)",
        ODD + "test_what_was_held_back_and_dropped_is_not_shown_as_held",
    ),
    _one(
        "settings-change-no-client-that-has-more",
        "Who may make keys changes no client that has more than he has, and lets none have more.",
        CLIENTS,
        "actor=actor_of(request), by=by)",
        "actor=actor_of(request))",
        SETTINGS + "test_whoever_may_make_keys_gives_nothing_that_he_has_not",
    ),
    _one(
        "settings-rotate-no-key-that-opens-more",
        "Who may make keys rotates none that opens more than he may.",
        CLIENTS,
        "            by=person_of(request.user),\n            newest=_newest_of(request),\n        )\n"
        "    except (InvalidInput, Conflict) as refused:\n        return",
        "            newest=_newest_of(request),\n        )\n"
        "    except (InvalidInput, Conflict) as refused:\n        return",
        SETTINGS + "test_whoever_may_make_keys_gives_nothing_that_he_has_not",
    ),
    _one(
        "settings-numbers-are-short",
        "A number of thousands of digits in the form of a key is refused, not a fault.",
        CLIENTS,
        "text.isdigit() and len(text) <= 18)",
        "text.isdigit())",
        SETTINGS + "test_a_key_that_cannot_be_is_not_made[a number of 5000 digits]",
    ),
    _one(
        "tails-begin-none-at-the-end",
        "A server that is about to stop begins no stream that it would wait for.",
        STREAMS,
        " and not self._is_stopping:",
        ":",
        TAILS + "test_a_server_that_is_about_to_stop_begins_no_stream",
    ),
    _one(
        "tails-outage-ends-an-answer",
        "A database that goes away while lines are read ends the stream as a whole answer.",
        STREAMS,
        "        except Unavailable:\n            pass  # the",
        "        except ZeroDivisionError:\n            pass  # the",
        TAILS + "test_a_database_that_is_away_while_lines_are_read_ends_the_stream_and_breaks_it_not",
    ),
    _one(
        "tails-tell-nothing-after-the-end",
        "Lines that were read while the right to look ended are not told.",
        STREAMS,
        "        if self.is_ended:\n            return\n        try:",
        "        try:",
        TAILS + "test_lines_that_were_read_while_the_right_to_look_ended_are_not_told",
    ),
    _one(
        "tails-say-that-they-live",
        "A stream that has nothing to tell says that it lives.",
        STREAMS,
        '                        await tail.tell(send, {"type": "http.response.body", "body": b":\\n\\n", '
        '"more_body": True})',
        "                        pass",
        TAILS + "test_a_stream_with_nothing_to_tell_says_that_it_lives",
    ),
    _one(
        "log-lines-before-are-the-runs-own",
        "The lines before a place are those of the run alone.",
        "scheduler/queries/log_pages.py",
        "RunLog.objects.filter(run_id=run_id, id__lt=place.id)",
        "RunLog.objects.filter(id__lt=place.id)",
        "tests/scheduler/dashboard/test_log.py::test_the_lines_of_other_runs_are_in_no_log",
    ),
    _one(
        "palette-settings-by-right",
        "The palette offers the pages of clients and users to whoever may open them.",
        "scheduler/dashboard/palette.py",
        "    if request.user.has_perm(CLIENTS):\n",
        "    if True:\n",
        "tests/scheduler/dashboard/test_palette.py"
        "::test_pages_are_found_by_their_name_and_are_all_there_is_without_a_text",
    ),
    _one(
        "admin-actions-need-a-right",
        "No action of the admin is offered to, or done for, somebody who may only look.",
        "scheduler/admin/jobs.py",
        '"Switch the selected triggers on"), permissions=["act"])',
        '"Switch the selected triggers on"))',
        ADMIN + "test_of_no_model_is_anything_offered_to_who_only_looks",
    ),
    _one(
        "no-replay-of-the-skipped",
        "What was skipped was never a run: nothing does it once more.",
        "scheduler/services/replays.py",
        "if original.verdict in (None, Run.Verdict.SKIPPED):",
        "if original.verdict is None:",
        ADMIN + "test_what_was_skipped_was_never_a_run_and_is_not_replayed",
    ),
]
