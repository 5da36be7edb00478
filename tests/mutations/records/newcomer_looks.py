"""What a newcomer was not told, or was shown wrongly."""

from tests.mutations.record import Mutation

IMPORT = "scheduler/management/commands/import_crontab.py"
IMPORTING = "scheduler/management/importing.py"
OVERVIEW = "scheduler/queries/overview.py"

ZONES = "tests/calendars/test_zones.py::"
RULES = "tests/calendars/test_rules.py::"
CRONTAB = "tests/scheduler/domain/test_crontab.py::"
IMPORTS = "tests/scheduler/test_import_crontab.py::"
JOBS_API = "tests/scheduler/api/test_jobs.py::"
HOSTILE = "tests/scheduler/api/test_hostile_input.py::"
SITE = "tests/scheduler/api/test_site.py::"
MODELS = "tests/architecture/test_models.py::"
SCOPES = "tests/architecture/test_scopes.py::"
JOBS = "tests/scheduler/dashboard/test_jobs.py::"
NEXT = "tests/scheduler/dashboard/test_upcoming.py::"
NOW = "tests/scheduler/dashboard/test_now.py::"
RUNS_BULK = "tests/scheduler/dashboard/test_runs_bulk.py::"

RECORDS = [
    Mutation(
        name="abbreviations-suggest-no-zone",
        mechanism="An abbreviation of a zone is told to be none, and nothing of another continent is suggested.",
        file="calendars/domain/zones.py",
        old='    if re.fullmatch(r"[a-z]{2,5}", lower) and lower not in by_city:',
        new="    if False:",
        red=[ZONES + "test_any_other_name_is_refused_with_a_suggestion"],
    ),
    Mutation(
        name="unknown-fields-name-what-is-meant",
        mechanism="A field of a body that is not known is refused with the one like it, or with all.",
        file="scheduler/domain/job_fields.py",
        old=" is not a field that is known here. {hint}",
        new=" is not a field that is known here.",
        red=[JOBS_API + "test_a_field_that_is_not_known_is_named_with_one_like_it_or_all"],
    ),
    Mutation(
        name="unknown-rule-fields-name-what-is-meant",
        mechanism="A field that no calendar rule has is refused with the one like it, or with all.",
        file="calendars/domain/rules.py",
        old='"A calendar rule has no such field. {hint}"',
        new='"A calendar rule has no such field."',
        red=[RULES + "test_a_field_that_no_rule_has_is_refused_with_what_there_is"],
    ),
    Mutation(
        name="another-type-of-body-names-json",
        mechanism="A body of another type is refused with the one to send.",
        file="runners/api/errors.py",
        old='f"{error.detail} Send Content-Type: application/json."',
        new="str(error.detail)",
        red=[HOSTILE + "test_a_body_of_another_type_is_415"],
    ),
    Mutation(
        name="crontab-notes-of-wrong-zones",
        mechanism="Of a zone that there is not nobody is told that the schedules below are in it.",
        file="scheduler/domain/crontab.py",
        old='            return "there is no such zone; the schedules below are not taken"',
        new="            pass",
        red=[CRONTAB + "test_what_is_said_of_a_zone_is_what_becomes_of_the_lines_below_it"],
    ),
    Mutation(
        name="crontab-notes-of-unknown-users",
        mechanism="A user of a crontab whom this machine does not know is noted.",
        file=IMPORT,
        old="    except KeyError:\n        return False\n    return True",
        new="    except KeyError:\n        return True\n    return True",
        red=[IMPORTS + "test_a_user_that_this_machine_does_not_know_is_said_and_taken"],
    ),
    Mutation(
        name="crontab-notes-of-lacking-runners",
        mechanism="An import says which of the capabilities and pins of its new jobs no runner has.",
        file=IMPORTING,
        old="        self._show_lacking(imported, now, options)\n",
        new="",
        red=[IMPORTS + "test_what_no_runner_has_is_said_as_the_api_says_it"],
    ),
    Mutation(
        name="crontab-dry-runs-would",
        mechanism="A dry run says of no job that it was created.",
        file=IMPORTING,
        old='        tense = "would be " if is_dry else ""\n',
        new='        tense = ""\n',
        red=[IMPORTS + "test_a_dry_run_writes_nothing_and_shows_words_and_next_fires"],
    ),
    Mutation(
        name="lists-named-as-people-do",
        mechanism="The admin's lists have the names that a person would give them.",
        file="scheduler/models/queue.py",
        old='        verbose_name_plural = "queue entries"\n',
        new="",
        red=[MODELS + "test_each_model_is_named_as_a_person_names_it", MODELS + "test_the_migrations_are_complete"],
    ),
    Mutation(
        name="scopes-in-the-docs",
        mechanism="The scope that docs/scopes.md names for a call is the one that its view demands.",
        file="scheduler/api/views/insights.py",
        old='class Tags(ApiView):\n    required_scope = {"GET": "jobs:read"}',
        new='class Tags(ApiView):\n    required_scope = {"GET": "schedules:read"}',
        red=[SCOPES + "test_the_table_of_scopes_is_what_the_views_demand"],
    ),
    Mutation(
        name="calendar-rules-described",
        mechanism="The API document describes the fields of calendar rules.",
        file="scheduler/api/calendars_schema.py",
        old=', help_text="A part of the country, such as BY."',
        new="",
        red=[SITE + "test_fields_that_do_not_explain_themselves_are_described"],
    ),
    Mutation(
        name="late-runs-badge",
        mechanism="A job whose due run nobody takes is shown as overdue where jobs are listed.",
        file=OVERVIEW,
        old="(job.is_late or is_missed)",
        new="is_missed",
        red=[JOBS + "test_a_job_whose_run_nobody_takes_or_whose_fire_nobody_plans_is_overdue"],
    ),
    Mutation(
        name="missed-fires-badge",
        mechanism="A job whose fires nobody plans is shown as overdue where jobs are listed.",
        file=OVERVIEW,
        old="(job.is_late or is_missed)",
        new="job.is_late",
        red=[JOBS + "test_a_job_whose_run_nobody_takes_or_whose_fire_nobody_plans_is_overdue"],
    ),
    Mutation(
        name="failing-badge",
        mechanism="A job is shown as failing by its newest run that was neither skipped nor cancelled.",
        file=OVERVIEW,
        old="    ran = finished.exclude(verdict__in=[Run.Verdict.SKIPPED, Run.Verdict.CANCELLED])",
        new="    ran = finished",
        red=[JOBS + "test_a_job_whose_newest_run_failed_for_good_is_failing"],
    ),
    Mutation(
        name="next-fires-say-their-zone",
        mechanism="A job's next fires say in whose zone they are shown.",
        file="templates/dashboard/job.html",
        old='{% else %}{% translate "Times are UTC" %}{% endif %}</span>',
        new="{% endif %}</span>",
        red=[JOBS + "test_the_next_fires_say_whose_times_they_are"],
    ),
    Mutation(
        name="unlisted-fires-have-a-row",
        mechanism="Where the fires of a job stop being listed, Next says how many follow.",
        file="scheduler/dashboard/upcoming.py",
        old="            if count and listed:",
        new="            if False:",
        red=[
            NEXT + "test_where_the_fires_of_a_job_stop_being_listed_a_row_says_how_many_follow",
            NEXT + "test_a_closure_of_many_occurrences_is_one_row",
        ],
    ),
    Mutation(
        name="maintenance-until-before-its-reason",
        mechanism="The end of a maintenance is said before its reason, not run into it.",
        file="templates/dashboard/_now.html",
        old='{% translate "All dispatch is held until" %} {% instant found.maintenance.until relative="due" %}.',
        new='{% translate "All dispatch is held." %}',
        red=[NOW + "test_until_when_all_is_held_is_said_apart_from_the_reason"],
    ),
    Mutation(
        name="clients-begin-without-scopes",
        mechanism="The form of a new client has nothing ticked.",
        file="scheduler/dashboard/settings_clients.py",
        old='"scopes": []}',
        new='"scopes": list(RUNNER_SCOPES)}',
        red=["tests/scheduler/dashboard/test_settings.py::test_a_new_client_may_nothing_that_nobody_ticked"],
    ),
    Mutation(
        name="compare-as-it-is-said",
        mechanism="What is said alike of two runs is not marked as another.",
        file="templates/dashboard/_run_compare.html",
        old="there=compared.wait_there.total_seconds|duration %}<tr{% if here != there %}",
        new="there=compared.wait_there.total_seconds|duration %}<tr{% if compared.wait_here != compared.wait_there %}",
        red=["tests/scheduler/dashboard/test_run_story.py::test_what_is_said_alike_is_not_marked_as_another"],
    ),
    Mutation(
        name="cron-says-what-a-field-takes",
        mechanism="The refusal of a word in a cron expression says what its field takes.",
        file="scheduler/domain/cron.py",
        old="field, which takes {taken}.",
        new="field.",
        red=["tests/scheduler/domain/test_cron.py::test_a_word_that_is_no_value_is_refused_with_what_is_one"],
    ),
    Mutation(
        name="runs-well-at-last",
        mechanism="The list of runs says of one that went well only at a later attempt that it did.",
        file="templates/dashboard/_run_rows.html",
        old='{% elif run.state == "completed" and run.attempt > 1 %}',
        new='{% elif run.state == "completed" and run.attempt > 9 %}',
        red=["tests/scheduler/dashboard/test_run_reasons.py::test_a_run_that_went_well_only_at_last_says_so"],
    ),
    Mutation(
        name="bulk-expected-is-plain-digits",
        mechanism="A number in other digits is refused by its field, not a fault.",
        file="scheduler/dashboard/bulk.py",
        old="expected.isascii() and ",
        new="",
        red=[RUNS_BULK + "test_nonsense_is_refused_by_its_field_and_nothing_is_done[form5-expected]"],
    ),
    Mutation(
        name="bulk-expected-is-short",
        mechanism="A number of thousands of digits is refused by its field, not a fault.",
        file="scheduler/dashboard/bulk.py",
        old=" and len(expected) < 10",
        new="",
        red=[RUNS_BULK + "test_nonsense_is_refused_by_its_field_and_nothing_is_done[5000 digits]"],
    ),
    Mutation(
        name="bulk-each-once",
        mechanism="Whoever stands in the form of many twice is one.",
        file="scheduler/dashboard/bulk.py",
        old="tuple(dict.fromkeys(map(bulk.id_of, texts)))",
        new="tuple(map(bulk.id_of, texts))",
        red=[RUNS_BULK + "test_who_stands_in_the_form_twice_is_one"],
    ),
    Mutation(
        name="bulk-refusals-told-are-few",
        mechanism="Of many refusals some are told, the others counted.",
        file="scheduler/dashboard/bulk.py",
        old="done.refused[:REFUSALS_TOLD]",
        new="done.refused",
        red=[RUNS_BULK + "test_of_many_refusals_some_are_told_and_the_others_counted"],
    ),
]
