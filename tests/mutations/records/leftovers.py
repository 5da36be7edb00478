"""What earlier looks had left: letters that were replayed, clocks that are set back, traces of deployments."""

from tests.mutations.record import Edit, Mutation

DIGEST = "scheduler/services/alerts/digest.py"
LOOKS = "scheduler/queries/alert_conditions.py"
CONDITIONS = "tests/scheduler/alerts/test_conditions.py::"
WHOSE = "tests/scheduler/alerts/test_whose.py::"
SET_BACK = "tests/scheduler/workers/test_clock_set_back.py::"
FORM = "tests/scheduler/dashboard/test_job_form.py::"
ALL_AT_ONCE = "tests/scheduler/api/test_schedules.py::test_all_that_is_wrong_with_a_schedule_is_said_at_once"
SUGGESTIONS = "tests/scheduler/api/test_suggestions.py::"
MISSPELLED = SUGGESTIONS + "test_a_job_that_is_misspelled_is_told_by_the_keys_that_the_caller_may_read"
UNSEEN = (
    "tests/scheduler/dashboard/test_markup.py::"
    "test_nothing_that_a_caller_wrote_hides_or_turns_around_what_stands_beside_it"
)
CLOCK = "scheduler/services/clock_set_back.py"

RECORDS = [
    Mutation(
        name="left-replayed-letters-do-not-wait",
        mechanism="Neither the digest nor the rule of letters counts one that was replayed.",
        edits=[
            Edit("scheduler/queries/waiting_letters.py", "filter(~Exists(again), ", "filter("),
        ],
        red=[
            WHOSE + "test_a_week_is_of_one_tenant",
            CONDITIONS + "test_letters_are_told_from_their_threshold_on_and_once_while_they_are_that_many",
        ],
    ),
    Mutation(
        name="left-clock-set-back-is-mended",
        mechanism="What was seen in an hour to come is taken for as long ago as it was.",
        file="scheduler/workers/reaper.py",
        old='    "clock": forget_the_future,  # before all that goes by signs of life\n',
        new="",
        red=[
            SET_BACK + "test_a_dead_scheduler_is_told_of_after_the_grace_and_one_that_lives_is_not",
            SET_BACK + "test_a_dead_runner_is_dead_and_what_it_held_is_lost_after_its_lease",
        ],
        quick=True,
    ),
    Mutation(
        name="left-clock-moves-and-does-not-touch",
        mechanism="What was long before the last sign of life is as long before it afterwards.",
        file=CLOCK,
        old="update(**{column: F(column) - step})",
        new="update(**{column: later})",
        red=[
            SET_BACK + "test_a_runner_that_was_taken_over_often_long_ago_does_not_flap",
            SET_BACK + "test_a_channel_is_tried_and_an_alert_is_sent_when_they_were_due",
        ],
    ),
    Mutation(
        name="left-clock-moves-leases",
        mechanism="Leases that the clock as it was has given end with it; a claim's time and deadline too.",
        file=CLOCK,
        old="    _move_claims(later, step, limit)\n",
        new="",
        red=[SET_BACK + "test_a_dead_runner_is_dead_and_what_it_held_is_lost_after_its_lease"],
    ),
    Mutation(
        name="left-clock-leaves-snoozes",
        mechanism="What a snooze holds back is held until the instant that was named.",
        file=CLOCK,
        old='(Alert.objects.filter(held=""), "next_at")',
        new='(Alert.objects.all(), "next_at")',
        red=[SET_BACK + "test_a_channel_is_tried_and_an_alert_is_sent_when_they_were_due"],
    ),
    Mutation(
        name="left-clock-slack",
        mechanism="What one server sees later than another is no clock that was set back.",
        edits=[
            Edit(CLOCK, "last - now <= SILENT", "last <= now"),
            Edit(CLOCK, "last - now, now + SILENT", "last - now, now"),
        ],
        red=[SET_BACK + "test_it_is_audited_once_and_less_than_one_server_sees_later_than_another_is_no_step"],
    ),
    Mutation(
        name="left-ticks-to-come-are-none",
        mechanism="`/ready`, `/health` and `/metrics` take no pass in an hour to come for one.",
        file="scheduler/queries/trouble.py",
        old=", tick_at__lte=now + SILENT)",
        new=")",
        red=[
            "tests/scheduler/metrics/test_ready.py::test_a_pass_in_an_hour_to_come_is_none_also_where_no_reaper_mends_that"
        ],
    ),
    Mutation(
        name="left-deployments-pass-traces-on",
        mechanism="Every process of a deployment is given the variables that ask for traces.",
        file="deploy/compose/postgres.yml",
        old="    environment:\n      <<: *otel\n      CRONIQ_RUNNER_KEY_FILE",
        new="    environment:\n      CRONIQ_RUNNER_KEY_FILE",
        red=["tests/deploy/test_facts.py::test_every_process_that_makes_spans_is_given_what_asks_for_them"],
    ),
    Mutation(
        name="left-form-keeps-what-was-written",
        mechanism="Fields that somebody has written in are not replaced by the failure of what he chose.",
        file="static/croniq-actions.js",
        old="      if (source.form && target.querySelector(FIELDS)) {",
        new="      if (false) {",
        realtime=[
            "tests/browser/test_interaction.py::"
            "test_a_part_that_keeps_itself_up_to_date_waits_while_nobody_looks_and_says_when_nobody_answers"
        ],
    ),
    Mutation(
        name="left-schedule-refused-all-at-once",
        mechanism="All that is wrong with a schedule is said at once, in the API and at the fields of the form.",
        file="scheduler/domain/trigger_fields.py",
        old="        once = OnceSchedule(now)",
        new="        wrong.end()\n        once = OnceSchedule(now)",
        red=[ALL_AT_ONCE],
    ),
    Mutation(
        name="left-schedule-refused-with-its-calendar",
        mechanism="A calendar that there is not is said beside what else is wrong with a schedule.",
        edits=[
            Edit(
                "scheduler/services/triggers.py",
                '        if "calendar" in fields or',
                '        wrong.end()\n        if "calendar" in fields or',
            ),
            Edit(
                "scheduler/services/whole_job.py",
                '    name = fields.get("calendar")\n',
                '    wrong.end()\n    name = fields.get("calendar")\n',
            ),
        ],
        red=[
            ALL_AT_ONCE,
            FORM + "test_all_that_is_wrong_with_one_schedule_is_said_at_once_and_no_second_new_one_is_there",
        ],
    ),
    Mutation(
        name="left-form-says-all-of-a-schedule",
        mechanism="Where a form's time cannot be read, what else is wrong with the schedule is said with it.",
        file="scheduler/dashboard/job_form.py",
        old="one.preview, one.errors = None, besides | unread",
        new="one.preview, one.errors = None, unread",
        red=[FORM + "test_all_that_is_wrong_with_one_schedule_is_said_at_once_and_no_second_new_one_is_there"],
    ),
    Mutation(
        name="left-form-one-new-schedule",
        mechanism="A form that is shown again with a new schedule that was refused has no second new one.",
        file="scheduler/dashboard/job_form.py",
        old="one.is_blank if status == 200 else not one.id",
        new="one.is_blank",
        red=[FORM + "test_all_that_is_wrong_with_one_schedule_is_said_at_once_and_no_second_new_one_is_there"],
    ),
    Mutation(
        name="left-job-key-meant-is-ones-own",
        mechanism="A job key that may be meant is one of the caller's own tenant.",
        file="scheduler/api/views/jobs.py",
        old="keys_around(job_key, view.principal.tenant)",
        new="keys_around(job_key)",
        red=[MISSPELLED],
    ),
    Mutation(
        name="left-job-key-meant-may-be-read",
        mechanism="Who may not read jobs is told no name of one.",
        file="scheduler/api/views/jobs.py",
        old='may_read = view.principal.has("jobs:read")',
        new="may_read = True",
        red=[MISSPELLED],
    ),
    Mutation(
        name="left-suggestions-cost-little",
        mechanism="What may be meant is looked for at a bounded cost: few keys, of them few letter by letter.",
        edits=[
            Edit("scheduler/queries/jobs.py", '.order_by("-job_key")[:KEYS_AROUND]', '.order_by("-job_key")'),
            Edit("croniq_site/kernel/suggestions.py", "nlargest(COMPARED, ", "nlargest(9999, "),
        ],
        red=[
            SUGGESTIONS + "test_of_many_jobs_those_next_to_the_key_are_looked_at",
            SUGGESTIONS + "test_few_of_many_names_are_compared_letter_by_letter",
        ],
    ),
    Mutation(
        name="newcomer-factors-of-another-key",
        mechanism="A second factor that the site's key does not open is a wrong code, and no fault.",
        file="croniq_site/people/codes.py",
        old="        except InvalidToken:\n",
        new="        except ZeroDivisionError:\n",
        red=["tests/people/test_second_factor.py::test_with_another_secret_key_no_code_is_right_and_the_log_says_why"],
    ),
    Mutation(
        name="newcomer-certificates-are-told",
        mechanism="An alert says of a receiver whose certificate is not right that it is that.",
        file="scheduler/services/alerts/transports.py",
        old="    except httpcore.ConnectError as error:\n",
        new="    except ZeroDivisionError as error:\n",
        red=["tests/scheduler/alerts/test_delivery.py::test_a_certificate_that_is_not_right_is_told_as_that"],
    ),
    Mutation(
        name="newcomer-compose-passes-settings-on",
        mechanism="What .env says reaches the servers of a compose file.",
        file="deploy/compose/postgres.yml",
        old="  CRONIQ_SMTP_URL:\n",
        new="",
        red=["tests/deploy/test_facts.py::test_every_setting_of_a_server_reaches_it_through_a_compose_file"],
    ),
    Mutation(
        name="left-pages-hide-nothing",
        mechanism="What a caller wrote hides nothing on any page and turns nothing around.",
        file="croniq_site/settings.py",
        old='    "croniq_site.unseen.ShowUnseen",\n',
        new="",
        red=[UNSEEN],
    ),
    Mutation(
        name="left-forms-keep-what-is-unseen",
        mechanism="A form sends back what was in it, also what one does not see.",
        file="croniq_site/unseen.py",
        old="part if number % 2 else with_signs(part)",
        new="with_signs(part)",
        red=[UNSEEN],
    ),
    Mutation(
        name="left-unseen-by-bytes-too",
        mechanism="A page with one character that has a sign is not passed by.",
        file="croniq_site/unseen.py",
        old="|\\xd8\\x9c",
        new="",
        red=["tests/site/test_unseen.py::test_each_character_that_has_a_sign_has_it_also_where_it_is_the_only_one"],
    ),
    Mutation(
        name="left-doctor-says-what-it-judges",
        mechanism="The doctor says that it is about the installation, and leads to where jobs are judged.",
        file="templates/settings/_doctor.html",
        old="{% url 'now' as now_url %}",
        new="",
        red=["tests/scheduler/dashboard/test_settings.py::test_the_doctor_says_on_its_page_what_it_says_elsewhere"],
    ),
    Mutation(
        name="left-overlap-says-utc",
        mechanism="The axis of Overlap says whose hours it shows.",
        file="templates/dashboard/overlap.html",
        old="{{ mark }}{% if forloop.first %} UTC{% endif %}",
        new="{{ mark }}",
        red=["tests/scheduler/dashboard/test_overlap.py::test_quiet_hours_are_said_in_words"],
    ),
    Mutation(
        name="left-quickstart-lets-alerts-be-sent",
        mechanism="Whoever ends the processes of one machine gives an alert that is being sent its time.",
        file="scheduler/management/commands/quickstart.py",
        old=", stop_seconds=END_SECONDS + 3)",
        new=")",
        red=["tests/deploy/test_facts.py::test_an_alert_that_is_being_sent_ends_before_its_process_is_killed"],
    ),
]
