"""What people type into forms: on whose clock, and what they are told where they typed it."""

from tests.mutations.record import Mutation

TIMES = "tests/scheduler/dashboard/test_typed_times.py::"
SAID = "tests/scheduler/dashboard/test_said.py::"
SETTINGS = "tests/scheduler/dashboard/test_settings.py::"
TYPED = "scheduler/dashboard/typed_times.py"

RECORDS = [
    Mutation(
        name="typed-times-on-the-viewers-clock",
        mechanism="A time that somebody types is on the clock on which he sees times.",
        file=TYPED,
        old=" or viewers_zone(request.user)",
        new=' or ""',
        red=[
            TIMES + "test_a_pause_ends_and_is_shown_on_the_viewers_clock",
            TIMES + "test_a_backfill_is_of_the_viewers_clock",
        ],
    ),
    Mutation(
        name="typed-times-by-the-zone-of-the-form",
        mechanism="The zone that a form showed is that of its times, whatever the viewer has chosen since.",
        file=TYPED,
        old='cleaned(values.get(ZONE, ""), _LONGEST_ZONE) or ',
        new="",
        red=[TIMES + "test_windows_are_on_the_viewers_clock_and_a_link_means_the_same_to_all"],
    ),
    Mutation(
        name="typed-times-tell-what-was-decided",
        mechanism="Where a clock shows a time twice or never, the page says which instant is meant.",
        file=TYPED,
        old="        messages.info(request, typed.note)\n",
        new="        pass\n",
        red=[TIMES + "test_what_was_decided_of_a_time_is_told"],
    ),
    Mutation(
        name="runs-carry-what-their-window-showed",
        mechanism="What is done to all that match has the window that the list had.",
        file="scheduler/dashboard/runs_bulk.py",
        old="choice_of(values, zone_of(request, values)).query",
        new="choice_of(values).query",
        red=[TIMES + "test_the_runs_that_a_window_of_the_viewers_clock_shows_are_those_that_are_done_to"],
    ),
    Mutation(
        name="refusals-name-their-fields",
        mechanism="The page's script is told which field each sentence of a refusal is about.",
        file="scheduler/dashboard/pages.py",
        old='response["Croniq-Fields"] = ",".join(',
        new='response["Croniq-Fields"] = "".join(',
        red=[SAID + "test_all_that_a_form_says_wrong_is_told_at_once_each_with_the_name_of_its_field"],
    ),
    Mutation(
        name="refusals-lead-back-to-our-pages-alone",
        mechanism="A refused form leads back to a page of this site, and to no other.",
        file="scheduler/dashboard/pages.py",
        old="    if where.netloc != request.get_host() or",
        new="    if",
        red=[SAID + "test_all_that_a_form_says_wrong_is_told_at_once_each_with_the_name_of_its_field"],
    ),
    Mutation(
        name="refusals-call-fields-by-their-labels",
        mechanism="What a service says of a field of the API is said of the field that the page shows.",
        file="scheduler/dashboard/refusals.py",
        old="    if label and is_named:\n",
        new="    if False:\n",
        red=[SAID + "test_a_field_is_called_by_its_label"],
    ),
    Mutation(
        name="passwords-of-others-open-nothing",
        mechanism="With a password that somebody else made nothing opens before it is changed, also over the API.",
        file="croniq_site/sign_in.py",
        old="        if must_change_password(user_obj):\n            return set()\n",
        new="",
        red=[SETTINGS + "test_a_user_is_made_with_a_password_that_is_shown_once"],
    ),
    Mutation(
        name="passwords-of-others-open-no-page-to-a-superuser",
        mechanism="Of a superuser no backend is asked what he may: pages ask first whose password he has.",
        file="scheduler/dashboard/pages.py",
        old="    if must_change_password(request.user):\n        raise",
        new="    if must_change_password(request.user) and not request.user.has_perm(needs):\n        raise",
        red=[SETTINGS + "test_a_lost_password_is_made_anew_and_a_user_deleted"],
    ),
    Mutation(
        name="passwords-of-others-open-no-admin",
        mechanism="With a password that somebody else made the admin does not open either.",
        file="croniq_site/admin.py",
        old=" and not must_change_password(request.user)\n",
        new="\n",
        red=[SETTINGS + "test_a_lost_password_is_made_anew_and_a_user_deleted"],
    ),
    Mutation(
        name="passwords-made-anew-are-of-others",
        mechanism="A lost password that is made anew is changed by whoever gets it.",
        file="runners/services/people.py",
        old="now, actor=actor)\n        password_given(user.pk)\n",
        new="now, actor=actor)\n",
        red=[SETTINGS + "test_a_lost_password_is_made_anew_and_a_user_deleted"],
    ),
    Mutation(
        name="passwords-that-the-admin-types-are-of-others",
        mechanism="A password that the admin types for somebody else is changed before anything opens.",
        file="croniq_site/admin.py",
        old="            password_given(int(id))\n",
        new="            pass\n",
        red=[
            "tests/people/test_told.py::test_a_password_that_the_admin_types_for_another_is_changed_before_anything_opens"
        ],
    ),
    Mutation(
        name="passwords-of-ones-own-are-not-of-others",
        mechanism="Whoever types his own password in the admin need not change it.",
        file="croniq_site/admin.py",
        old=" and id != str(request.user.pk):",
        new=":",
        red=[
            "tests/people/test_told.py::test_a_password_that_the_admin_types_for_another_is_changed_before_anything_opens"
        ],
    ),
    Mutation(
        name="passwords-that-were-refused-are-nobodys",
        mechanism="A password that the admin refuses changes nothing for whom it was typed.",
        file="croniq_site/admin.py",
        old=" and answer.status_code == 302 and id",
        new=" and id",
        red=[
            "tests/people/test_told.py::test_a_password_that_the_admin_types_for_another_is_changed_before_anything_opens"
        ],
    ),
    Mutation(
        name="clients-are-refused-with-all-that-is-wrong",
        mechanism="The form of an API client says all that is wrong at once.",
        file="scheduler/dashboard/settings_clients.py",
        old="            wrong |= refused.fields\n",
        new="            raise\n",
        red=[SETTINGS + "test_all_that_is_wrong_with_a_client_is_said_at_once"],
    ),
    Mutation(
        name="once-on-the-schedules-clock",
        mechanism="A schedule that runs once is on the clock of its own zone, as its cron would be.",
        file="scheduler/dashboard/job_fields.py",
        old='read_time, "schedule", text, zone if is_zone else "")',
        new='read_time, "schedule", text, "")',
        red=[
            "tests/scheduler/dashboard/test_job_form.py::test_once_is_on_the_clock_of_its_zone_or_of_the_installations"
        ],
    ),
    Mutation(
        name="once-tells-what-was-decided",
        mechanism="Where a schedule's clock shows its time twice or never, the form says which instant is meant.",
        file="scheduler/dashboard/job_fields.py",
        old="text, self.note = (wire_text(typed.at), typed.note) if",
        new='text, self.note = (wire_text(typed.at), "") if',
        red=[
            "tests/scheduler/dashboard/test_job_form.py::"
            "test_what_was_decided_of_a_time_that_its_clock_never_shows_is_told"
        ],
    ),
    Mutation(
        name="once-is-said-on-the-schedules-clock",
        mechanism="A schedule that runs once is said on the clock of its own zone, as its cron would be.",
        file="scheduler/domain/words.py",
        old="at.astimezone(load_zone(zone).info)",
        new='at.astimezone(load_zone("UTC").info)',
        red=[
            "tests/scheduler/domain/test_words.py::test_once_in_words",
            "tests/scheduler/dashboard/test_job_form.py::"
            "test_what_was_decided_of_a_time_that_its_clock_never_shows_is_told",
        ],
    ),
    Mutation(
        name="backfills-give-their-reasons-in-sentences",
        mechanism="Each reason of a backfill is a sentence in the reader's language, with the page's times.",
        file="templates/dashboard/backfill.html",
        old="{% for reason in would.reasons %}<li>{% told reason %}</li>{% endfor %}",
        new="<li>{{ would.message|said }}</li>",
        red=[
            "tests/scheduler/dashboard/test_job_actions.py::"
            "test_a_backfill_of_what_was_before_the_schedule_says_where_to_begin"
        ],
    ),
]
