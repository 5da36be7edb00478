"""What somebody found who had not built it: mechanisms whose loss no test noticed."""

from tests.mutations.record import Edit, Mutation

CONFIGURATION = "croniq_site/configuration.py"
SETTINGS = "croniq_site/settings.py"
CLIENTS = "runners/services/clients.py"

CONNECTIONS = "tests/site/test_connections.py::"
FRAMING = "tests/scheduler/dashboard/test_framing.py::"
MADE = "tests/runners/test_clients.py::"
PAUSES = "tests/scheduler/planning/test_ends_of_pauses.py::"
WAKES = "tests/scheduler/planning/test_wakes_of_edits.py::"
STRANGERS = "tests/scheduler/edge/test_strangers.py::"
PLAIN = "tests/site/test_plain_http.py::"
WAITS = "tests/scheduler/planning/test_what_waits.py::"
ADMISSION = "tests/scheduler/edge/test_broken_admission.py::"

RECORDS = [
    Mutation(
        name="postgresql-connections-are-asked-first",
        mechanism="A connection that was ended while nobody used it costs no request: it is asked before it is used.",
        file=CONFIGURATION,
        old='        settings["CONN_HEALTH_CHECKS"] = True\n',
        new="        pass\n",
        red=[CONNECTIONS + "test_a_connection_that_was_ended_while_nobody_used_it_costs_no_request"],
        database="postgresql",
    ),
    Mutation(
        name="loop-drops-dead-connections",
        mechanism="A connection that was ended between two passes of a worker fails none of them.",
        file="croniq_site/kernel/loop.py",
        old="        close_old_connections()\n",
        new="",
        red=[CONNECTIONS + "test_a_connection_that_was_ended_between_two_passes_of_a_worker_fails_none_of_them"],
        database="postgresql",
    ),
    Mutation(
        name="pages-in-no-frame",
        mechanism="No page is shown in a frame of another site.",
        edits=[
            Edit(SETTINGS, 'X_FRAME_OPTIONS = "DENY"', 'X_FRAME_OPTIONS = "SAMEORIGIN"'),
            Edit(SETTINGS, '        "frame-ancestors": ["\'none\'"],\n', ""),
        ],
        red=[FRAMING + "test_no_page_is_shown_in_a_frame_nor_sends_its_forms_elsewhere"],
    ),
    Mutation(
        name="pages-forms-stay-here",
        mechanism="No page sends a form to another site, nor takes its addresses from another base.",
        edits=[
            Edit(SETTINGS, '        "form-action": ["\'self\'"],\n', ""),
            Edit(SETTINGS, '        "base-uri": ["\'none\'"],\n', ""),
        ],
        red=[FRAMING + "test_no_page_is_shown_in_a_frame_nor_sends_its_forms_elsewhere"],
    ),
    Mutation(
        name="passwords-have-ten-characters",
        mechanism="A password that is shorter than ten characters is refused.",
        file=SETTINGS,
        old='"OPTIONS": {"min_length": 10}',
        new='"OPTIONS": {"min_length": 1}',
        red=[FRAMING + "test_a_password_that_is_short_common_or_the_users_name_is_refused"],
    ),
    Mutation(
        name="clients-known-scopes",
        mechanism="No client gets a scope that there is not, whoever calls the service.",
        file=CLIENTS,
        old="    if unknown := unknown_scopes(scopes):",
        new="    if unknown := []:",
        red=[MADE + "test_a_client_is_not_made_with_what_nobody_has", MADE + "test_nor_does_an_edit_give_it"],
    ),
    Mutation(
        name="clients-at-least-one-scope",
        mechanism="A client without any scope is refused, whoever calls the service.",
        file=CLIENTS,
        old='    if not scopes:\n        raise InvalidInput.of("scopes", "A client',
        new='    if False:\n        raise InvalidInput.of("scopes", "A client',
        red=[MADE + "test_a_client_is_not_made_with_what_nobody_has", MADE + "test_nor_does_an_edit_give_it"],
    ),
    Mutation(
        name="pauses-of-deleted-jobs",
        mechanism="The pause of a deleted job keeps no other pause from ending.",
        file="scheduler/services/pause.py",
        old=", paused_at__isnull=False, deleted_at__isnull=True)",
        new=", paused_at__isnull=False)",
        red=[PAUSES + "test_the_pause_of_a_deleted_job_keeps_no_other_pause_from_ending"],
    ),
    Mutation(
        name="relaned-runs-wake",
        mechanism="Runs that an edit moves into a lane that is there wake those who wait at it.",
        file="scheduler/services/jobs.py",
        old="update(lane=job.lane)\n        wake([job.lane_id])\n",
        new="update(lane=job.lane)\n",
        red=[WAKES + "test_runs_that_an_edit_moves_into_a_lane_that_is_there_wake_those_who_wait_at_it"],
    ),
    Mutation(
        name="lanes-committed-late",
        mechanism="A lane that is committed after one with a higher id is learnt of.",
        file="scheduler/queries/lanes.py",
        old="_OVERLAP = 500",
        new="_OVERLAP = 0",
        red=[WAKES + "test_a_lane_that_is_committed_after_one_with_a_higher_id_is_learnt_of"],
        database="postgresql",
    ),
    Mutation(
        name="rejections-belong-to-a-tenant",
        mechanism="The tenant of a refused client finds the refusal in its audit.",
        file="scheduler/services/identity.py",
        old='        tenant=principal.tenant or "",\n    )\n    with write_transaction():\n',
        new="    )\n    with write_transaction():\n",
        red=[STRANGERS + "test_the_tenant_of_a_refused_client_can_find_the_refusal_in_its_audit"],
    ),
    Mutation(
        name="keys-remembered-are-bounded",
        mechanism="No more than so many keys are remembered.",
        file="scheduler/api/work/auth.py",
        old="            if len(self._known) >= MOST_KEYS:\n                self._known.pop(next(iter(self._known)))\n",
        new="",
        red=[STRANGERS + "test_no_more_than_so_many_keys_are_remembered"],
    ),
    Mutation(
        name="broken-admission-alone",
        mechanism="A fault in the admission of limited jobs stops only them; the others are handed out.",
        file="scheduler/api/work/claiming.py",
        old='        if is_outage(error):\n            raise\n        _log.exception("due runs',
        new='        raise\n        _log.exception("due runs',
        red=[ADMISSION + "test_a_fault_in_the_admission_of_limited_jobs_stops_only_them"],
    ),
    Mutation(
        name="machines-are-not-redirected",
        mechanism="A server that expects https answers probes and SDKs over plain http; they follow no redirects.",
        file=SETTINGS,
        old='SECURE_REDIRECT_EXEMPT = [r"^v1/", r"^health$", r"^ready$", r"^version$", r"^metrics$"]',
        new="SECURE_REDIRECT_EXEMPT = []",
        red=[
            PLAIN + "test_a_probe_from_inside_is_answered_over_plain_http",
            PLAIN + "test_an_sdk_which_follows_no_redirects_is_answered_over_plain_http",
        ],
    ),
    Mutation(
        name="override-of-preferences-keeps-requirements",
        mechanism="A run for which a caller prefers a runner still requires what its job requires.",
        file="scheduler/services/lanes.py",
        old="require or job.require, ",
        new="require or [], ",
        red=[WAITS + "test_who_prefers_a_runner_for_one_run_still_requires_what_the_job_requires"],
    ),
    Mutation(
        name="tried-runs-keep-their-attempts",
        mechanism="An edit of the retries leaves a run that was tried with the cap that its losses count against.",
        file="scheduler/services/jobs.py",
        old="waiting.filter(attempt=0).update(max",
        new="waiting.update(max",
        red=[WAITS + "test_a_run_that_was_tried_goes_on_with_the_attempts_that_it_began_with"],
    ),
    Mutation(
        name="plan-longest-due-first",
        mechanism="The trigger that waits longest to be planned is planned first: none starves behind newer ones.",
        file="scheduler/sql/due.py",
        old="ORDER BY t.next_materialize_at LIMIT %s {lock}",
        new="ORDER BY t.next_materialize_at DESC LIMIT %s {lock}",
        red=[WAITS + "test_the_trigger_that_waits_longest_to_be_planned_is_planned_first"],
    ),
    Mutation(
        name="missed-is-decided-in-ten-minutes",
        mechanism="What was kept after an outage is not skipped hours later for its age, while it waits for a runner.",
        file="scheduler/services/missed.py",
        old=" or now - outage.ended_at > RECENT",
        new="",
        red=[WAITS + "test_what_was_kept_after_an_outage_waits_for_its_runner_however_long_that_takes"],
    ),
]
