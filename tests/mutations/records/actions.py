"""Who executes what: commands go to runners that execute actions, handlers to runners that have them."""

from tests.mutations.record import Edit, Mutation

COMMANDS = "tests/scheduler/edge/test_commands.py::"
CLIENT = "tests/runners/agent/test_client.py::"
LANES = "scheduler/queries/lanes.py"
JOBS = "scheduler/services/jobs.py"

RECORDS = [
    Mutation(
        name="action-prefers-runners-of-commands",
        mechanism="A job with an action prefers runners that execute actions.",
        file="scheduler/services/lanes.py",
        old="implied = capabilities_for(job.action)",
        new="implied = []",
        red=[
            COMMANDS + "test_a_runner_without_capabilities_leaves_a_command_to_others_at_first",
            COMMANDS + "test_what_the_job_and_the_trigger_ask_for_is_asked_for_still",
        ],
    ),
    Mutation(
        name="prefer-gives-a-head-start",
        mechanism="A runner that lacks what a lane prefers sees its runs later.",
        file=LANES,
        old=" if not lanes[lane_id].prefer <= has)",
        new=" if False)",
        red=[
            COMMANDS + "test_a_runner_without_capabilities_leaves_a_command_to_others_at_first",
            COMMANDS + "test_all_preferences_together_give_the_head_start",
        ],
    ),
    Mutation(
        name="prefer-is-by-the-claims-instant",
        mechanism="The head start is decided by the claim itself, by its own now, on both databases.",
        edits=[
            Edit(
                "scheduler/sql/postgresql.py",
                "[array(late), now - HEAD_START, now, listed]",
                "[array(late), now, now, listed]",
            ),
            Edit("scheduler/sql/sqlite.py", "late_at if lane_id in late else due_at", "due_at"),
        ],
        red=[
            COMMANDS + "test_a_late_lane_is_seen_at_its_instant_and_its_neighbour_at_once",
            COMMANDS + "test_it_gets_the_command_when_nobody_else_took_it",
        ],
    ),
    Mutation(
        name="prefer-ends-by-a-timer",
        mechanism="What falls due next counts the head start: a poll that waits is served in time.",
        file="scheduler/sql/upcoming.py",
        old="HEAD_START if lane_id in late else timedelta(0)",
        new="timedelta(0)",
        red=[COMMANDS + "test_a_late_lane_is_seen_at_its_instant_and_its_neighbour_at_once"],
    ),
    Mutation(
        name="runner-of-commands-only",
        mechanism="A runner that has no handlers is offered no job that needs one.",
        file=LANES,
        old=" and (not must or must & lane.prefer)",
        new="",
        red=[
            COMMANDS + "test_a_runner_of_commands_only_never_gets_a_job_without_an_action",
            COMMANDS + "test_an_edit_of_the_action_reaches_the_runs_that_wait[the-jobs-lane]",
        ],
    ),
    Mutation(
        name="runner-says-that-it-executes-actions",
        mechanism="The reference runner says that it executes actions and that it has no handlers.",
        file="runners/agent/agent.py",
        old="[*settings.capabilities, *executes, COMMAND_ONLY]",
        new="[*settings.capabilities]",
        red=["tests/runners/agent/test_agent.py::test_it_says_that_it_executes_actions_and_has_no_handlers"],
    ),
    Mutation(
        name="action-edit-moves-what-waits",
        mechanism="Runs that wait follow an edit that sets or takes away the action.",
        file=JOBS,
        old='"priority", "pin", "action"}',
        new='"priority", "pin"}',
        red=[COMMANDS + "test_an_edit_of_the_action_reaches_the_runs_that_wait[the-jobs-lane]"],
    ),
    Mutation(
        name="action-edit-moves-own-lanes",
        mechanism="So do those with a trigger's own override, which every other edit leaves where they are.",
        file=JOBS,
        old="        _bring_action_to_own_lanes(job)\n",
        new="        pass\n",
        red=[COMMANDS + "test_an_edit_of_the_action_reaches_the_runs_that_wait[a-lane-of-its-own]"],
    ),
    Mutation(
        name="reserved-capabilities",
        mechanism="Names that begin with croniq: are nobody's to ask for.",
        file="scheduler/domain/job_fields.py",
        old="    if any(name.startswith(RESERVED_PREFIX) for name in names):\n",
        new="    if False:\n",
        red=[
            COMMANDS + "test_nobody_asks_for_a_name_of_croniqs_own[croniq:-require]",
            COMMANDS + "test_nobody_asks_for_a_name_of_croniqs_own[croniq:command-only-prefer]",
        ],
    ),
    Mutation(
        name="lacking-capabilities-are-warned-of",
        mechanism="Who requires what only dead runners or those of other tenants have is told so.",
        file="scheduler/queries/runners.py",
        old='return seen.filter(ArrayHolds("capabilities", name)).exists()',
        new='return Runner.objects.filter(ArrayHolds("capabilities", name)).exists()',
        red=["tests/scheduler/api/test_jobs.py::test_a_requirement_that_no_live_runner_meets_is_warned_of"],
    ),
    Mutation(
        name="result-outlives-a-restart",
        mechanism="The reference runner says the result of a run again while there is no server.",
        file="runners/agent/client.py",
        old="            if asyncio.get_running_loop().time() + delay > began_at + patience:\n",
        new="            if True:\n",
        red=[CLIENT + "test_a_result_waits_for_a_server_that_is_restarting"],
    ),
    Mutation(
        name="patience-for-a-result-ends",
        mechanism="It does not say it for ever.",
        file="runners/agent/client.py",
        old="            if asyncio.get_running_loop().time() + delay > began_at + patience:\n",
        new="            if False:\n",
        red=[CLIENT + "test_the_patience_for_a_result_ends[503-HTTPStatusError]"],
    ),
]
