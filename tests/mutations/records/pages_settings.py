"""Draining, runners and settings: who takes no work, what is shown once, who may make whom."""

from tests.mutations.record import Edit, Mutation

DRAIN = "tests/scheduler/edge/test_drain.py::"
ENDED = "tests/scheduler/edge/test_ended_keys.py::"
RUNNERS = "tests/scheduler/dashboard/test_runners.py::"
SETTINGS = "tests/scheduler/dashboard/test_settings.py::"
USERS = "tests/scheduler/api/test_users.py::"
EXPLAIN = "tests/scheduler/api/test_explain.py::"
MATRIX = "tests/people/test_matrix.py::"
SERVICE = "scheduler/services/drain.py"
DESK = "scheduler/api/work/desk.py"
KEYS = "scheduler/api/work/auth.py"
KINDS = "scheduler/queries/runner_matrix.py"
STORY = "scheduler/queries/runner_story.py"
CLIENTS = "runners/services/clients.py"
PEOPLE = "runners/services/people.py"

RECORDS = [
    Mutation(
        name="drain-is-honoured-by-the-claim",
        mechanism="A claim that began before its runner was drained and comes after it finds nobody to claim for.",
        edits=[
            Edit("scheduler/sql/postgresql.py", " AND NOT i.is_drained", ""),
            Edit("scheduler/sql/sqlite.py", " AND NOT is_drained", ""),
        ],
        red=[
            DRAIN + "test_a_claim_while_its_runner_is_being_drained_gets_nothing",
            DRAIN + "test_a_drain_while_a_claim_is_under_way_comes_after_it",
        ],
    ),
    Mutation(
        name="drain-asks-nothing-for-it",
        mechanism="No claim looks for work for a drained runner's polls.",
        file=DESK,
        old="        if held.is_drained or not lanes:\n",
        new="        if not lanes:\n",
        red=[DRAIN + "test_nobody_looks_for_work_for_it"],
    ),
    Mutation(
        name="drain-ends-for-a-poll-that-waits",
        mechanism="A poll that waits while its runner is drained or resumed joins or leaves those that are asked for.",
        file=DESK,
        old="            self._join_again(held)\n        held.cancels",
        new="            pass\n        held.cancels",
        red=[DRAIN + "test_a_poll_that_waits_takes_nothing_from_then_on_and_at_once_when_it_is_resumed"],
    ),
    Mutation(
        name="drain-takes-turns",
        mechanism="Who drains a runner while somebody else does sees since when it is drained.",
        file=SERVICE,
        old='Runner.objects.select_for_update(of=("self",)).select_related',
        new="Runner.objects.select_related",
        red=[DRAIN + "test_of_two_who_drain_it_at_once_the_second_changes_the_reason_alone"],
        database="postgresql",
    ),
    Mutation(
        name="drain-is-told",
        mechanism="Polls that wait hear at once that their runner is drained, or works again.",
        file=SERVICE,
        old='    tell(current.values_list("pk", flat=True))\n',
        new="",
        red=[DRAIN + "test_whoever_waits_is_told_of_both"],
    ),
    Mutation(
        name="drain-leaves-the-deposed",
        mechanism="A drain writes to the process that speaks for the runner, however many spoke before.",
        file=SERVICE,
        old="RunnerInstance.objects.filter(runner=runner, deposed_at__isnull=True)",
        new="RunnerInstance.objects.filter(runner=runner)",
        red=[DRAIN + "test_again_changes_the_reason_alone"],
    ),
    Mutation(
        name="drain-survives-a-restart",
        mechanism="A process that starts anew under a drained runner's id takes no work.",
        file="scheduler/services/identity.py",
        old="            is_drained=runner.drained_at is not None,\n",
        new="",
        red=[
            DRAIN + "test_a_process_that_starts_anew_takes_none_either",
            DRAIN + "test_a_takeover_while_the_runner_is_being_drained_is_drained_too",
        ],
    ),
    Mutation(
        name="drain-is-looked-at-each-time",
        mechanism="A drained runner is never let in without a look: that it works again must not be missed.",
        file="scheduler/api/work/presence.py",
        old="        if opened.is_drained:\n            self._seats.pop(key, None)\n            return\n",
        new="",
        red=[DRAIN + "test_a_drained_one_is_looked_at_each_time"],
    ),
    Mutation(
        name="drain-is-seen-by-whoever-was-let-in",
        mechanism="Who was let in before his look and is drained by then needs one.",
        file="scheduler/services/poll.py",
        old=" if not instance.is_drained}",
        new="}",
        red=[DRAIN + "test_who_was_let_in_without_a_look_and_is_drained_or_deposed_needs_one"],
    ),
    Mutation(
        name="drain-of-the-own-tenant",
        mechanism="A client of a tenant drains no runner of another's.",
        file=SERVICE,
        old="    return (runners if tenant is None else runners.filter(client__tenant=tenant)).first()",
        new="    return runners.first()",
        red=[DRAIN + "test_a_runner_that_is_not_there_or_is_anothers_is_none"],
    ),
    Mutation(
        name="drain-again-is-no-news",
        mechanism="Draining again for the same reason writes nothing and is told nobody.",
        file=SERVICE,
        old="        if runner.drained_at is not None and runner.drain_reason == reason:\n",
        new="        if False:\n",
        red=[DRAIN + "test_again_changes_the_reason_alone"],
    ),
    Mutation(
        name="drained-runners-have-nothing-for-jobs",
        mechanism="A capability that drained runners alone have is one that nobody has.",
        edits=[
            Edit("scheduler/queries/waits.py", "taker.tenant in (None, tenant) and not taker.is_drained]", "True]"),
            Edit("scheduler/queries/gauges.py", ", drained_at__isnull=True", ""),
        ],
        red=[
            EXPLAIN + "test_runners_that_are_drained_take_nothing",
            "tests/scheduler/metrics/test_gauges.py::test_a_capability_that_a_job_requires_is_there_with_the_runners_that_have_it",
        ],
    ),
    Mutation(
        name="held-poll-ends-when-its-key-expires",
        mechanism="A poll that waits ends when the key expires by which it was let in.",
        file=KEYS,
        old="            self._look_when_it_expires(principal, now)\n            ends =",
        new="            ends =",
        red=[ENDED + "test_a_poll_that_waits_ends_when_its_key_expires"],
        # On SQLite whatever is written has all keys looked at, and what is found says when they expire.
        database="postgresql",
    ),
    Mutation(
        name="held-poll-ends-when-its-key-comes-to-expire",
        mechanism="A key that is given an end while its poll waits ends it too.",
        file=KEYS,
        old="        for principal in live.values():\n            self._look_when_it_expires(principal, now)\n",
        new="",
        red=[ENDED + "test_a_poll_that_waits_ends_with_its_key[let_it_expire]"],
    ),
    Mutation(
        name="matrix-goes-by-what-the-claim-goes-by",
        mechanism="A runner without handlers takes only jobs with an action that it executes.",
        file=KINDS,
        old="        return Cell(DRAINED if column.is_drained else TAKES, names)\n    if column",
        new="        return Cell(TAKES, names)\n    if column",
        red=[RUNNERS + "test_the_matrix_says_who_may_take_what_and_why_not"],
    ),
    Mutation(
        name="matrix-a-pin-means-one",
        mechanism="Of runners that are alike a pin means one.",
        file=KINDS,
        old="names = tuple(takers) if len(takers) < len(column.runners) else ()",
        new="names = ()",
        red=[RUNNERS + "test_runners_that_differ_in_their_ids_alone_are_one_column_but_a_pin_means_one"],
    ),
    Mutation(
        name="matrix-names-what-nobody-has",
        mechanism="What only drained runners have is had by nobody who takes work.",
        file=KINDS,
        old="        if all(column.is_drained for column in having):\n",
        new="        if not having:\n",
        red=[RUNNERS + "test_the_matrix_says_who_may_take_what_and_why_not"],
    ),
    Mutation(
        name="takeovers-flap-by-runner",
        mechanism="Three takeovers of three runners are no flapping.",
        file=STORY,
        old="        recent = before[pk] = [earlier for earlier in before[pk] if",
        new="        recent = before[0] = [earlier for earlier in before[0] if",
        red=[RUNNERS + "test_the_third_takeover_within_ten_minutes_is_one_of_a_flapping_identity"],
    ),
    Mutation(
        name="takeovers-before-the-window-count-for-the-mark",
        mechanism="Whether the first takeover of a window is one of a flapping identity those before it say.",
        file=STORY,
        old="deposed_at__gt=since - FLAPPING_WINDOW",
        new="deposed_at__gt=since",
        red=[RUNNERS + "test_takeovers_before_the_window_count_for_the_mark_alone"],
    ),
    Mutation(
        name="release-is-typed",
        mechanism="An identity is released on a page by whoever types it.",
        file="scheduler/dashboard/runner_page.py",
        old='    if request.POST.get("typed", "").strip() != runner.runner_id:\n',
        new="    if False:\n",
        red=[RUNNERS + "test_a_release_is_typed"],
    ),
    Mutation(
        name="a-form-sent-twice-makes-one-key",
        mechanism="A form for a key that is sent twice makes one.",
        file=CLIENTS,
        old="    if newest is not None and ApiKey.objects",
        new="    if False and ApiKey.objects",
        red=[
            SETTINGS + "test_a_key_is_shown_once_and_a_form_that_is_sent_twice_makes_one",
            SETTINGS + "test_a_rotated_key_goes_on_for_the_overlap",
        ],
    ),
    Mutation(
        name="settings-give-nothing-that-one-has-not",
        mechanism="Whoever may make keys gives on the pages nothing that he has not himself.",
        file="scheduler/dashboard/settings_clients.py",
        old='    refuse_more_than(person_of(request.user), texts["scopes"])\n',
        new="",
        red=[SETTINGS + "test_whoever_may_make_keys_gives_nothing_that_he_has_not"],
    ),
    Mutation(
        name="administrators-make-runners-keys",
        mechanism="An administrator has no scope of the work protocol and makes the keys of runners all the same.",
        file="runners/domain/scopes.py",
        old="        return ADMIN in self.scopes or super().may_grant(scopes)",
        new="        return super().may_grant(scopes)",
        red=[SETTINGS + "test_a_client_is_made_and_leads_to_its_page"],
    ),
    Mutation(
        name="settings-are-for-administrators",
        mechanism="A page of settings needs the permission that it says.",
        edits=[
            Edit("scheduler/dashboard/pages.py", "        return partial(form, needs=needs)", "        return form"),
            Edit(
                "scheduler/dashboard/pages.py", "        return partial(action, needs=needs)", "        return action"
            ),
            Edit("scheduler/dashboard/pages.py", "        return partial(page, needs=needs)", "        return page"),
        ],
        red=[
            MATRIX + "test_everybody_may_what_the_table_says_and_nothing_else",
            SETTINGS + "test_no_page_of_an_operator_makes_keys_or_users",
        ],
    ),
    Mutation(
        name="people-are-no-business-of-a-tenants-key",
        mechanism="A key of a tenant sees and changes no user.",
        file="scheduler/api/views/users.py",
        old="        if self.principal.tenant is not None:\n",
        new="        if False:\n",
        red=[USERS + "test_people_are_no_business_of_a_tenants_key_or_of_an_operator"],
    ),
    Mutation(
        name="a-users-name-is-his-however-it-is-written",
        mechanism="Two ways to write one name are one user.",
        file=PEOPLE,
        old="        username = model.normalize_username(username)\n",
        new="",
        red=[USERS + "test_a_name_is_one_persons_however_it_is_written"],
    ),
]
