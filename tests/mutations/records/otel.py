"""Traces: off unless asked for, one trace a run, what travels with it, and what must not wait for them."""

from tests.mutations.record import Mutation

TRACING, TRACES = "tests/kernel/test_tracing.py::", "tests/scheduler/metrics/test_traces.py::"
AGENT = "tests/runners/agent/test_traces.py::"
SPANS, NOTES = "croniq_site/kernel/spans.py", "scheduler/metrics/traces.py"

RECORDS = [
    Mutation(
        name="otel-off-by-default",
        mechanism="Without an endpoint or an exporter there are no spans.",
        file="croniq_site/kernel/tracing.py",
        old=' == "none" or not (exporter or endpoint):',
        new=' == "none":',
        red=[TRACING + "test_the_standard_variables_turn_it_on_and_nothing_else_does"],
    ),
    Mutation(
        name="otel-last-spans-are-not-waited-for",
        mechanism="A collector that hangs does not keep a process from its end.",
        file=SPANS,
        old="        last.join(END_SECONDS)\n",
        new="        last.join()\n",
        red=[TRACING + "test_a_collector_that_hangs_does_not_keep_the_process"],
    ),
    Mutation(
        name="otel-errors-are-masked",
        mechanism="What a failure says goes out without secrets.",
        file=SPANS,
        old="masked(error)[:ERROR_MOST_CHARACTERS]",
        new="error[:ERROR_MOST_CHARACTERS]",
        red=[
            TRACING + "test_a_failure_is_told_without_secrets",
            TRACING + "test_what_is_raised_within_a_span_is_told_without_secrets_and_traceback",
        ],
    ),
    Mutation(
        name="otel-trace-ids-are-hashed",
        mechanism="A trace's id is a hash: samplers take its lower half for random.",
        file=NOTES,
        old='        trace_id = _digest(run_id, "trace", 16)\n',
        new="        trace_id = run_id.int\n",
        red=[TRACES + "test_half_of_the_traces_are_half_of_the_runs_in_every_process"],
    ),
    Mutation(
        name="otel-caller-is-the-parent",
        mechanism="The trigger's traceparent is the parent of its run.",
        file=NOTES,
        old="        if caller is not None:\n",
        new="        if False:\n",
        red=[TRACES + "test_a_triggers_caller_is_the_parent_and_nobody_is_told_of_what_travels"],
    ),
    Mutation(
        name="otel-a-claim-given-back-has-no-span",
        mechanism="A claim whose answer nobody heard is as if it had never been, also in the trace.",
        file="scheduler/services/queue.py",
        old=" for rest in rests if rest.attempt == rest.entry.attempt]",
        new=" for rest in rests]",
        red=[TRACES + "test_however_an_attempt_ends_it_has_one_span"],
    ),
    Mutation(
        name="otel-acks-do-not-depend-on-spans",
        mechanism="An ack is taken whatever becomes of its span.",
        file=NOTES,
        old='        _log.exception("the spans of %d completed runs are lost", len(run_ids))  # their',
        new="        raise  # their",
        red=[TRACES + "test_an_ack_is_taken_though_its_span_is_lost"],
    ),
    Mutation(
        name="otel-claims-do-not-depend-on-spans",
        mechanism="A run is handed out whatever becomes of its span.",
        file=NOTES,
        old='        _log.exception("%d spans are lost", len(spans))  # what',
        new="        raise  # what",
        red=[TRACES + "test_a_run_is_handed_out_though_its_span_is_lost"],
    ),
    Mutation(
        name="otel-nonsense-ends-no-process",
        mechanism="Variables that the SDK refuses turn traces off and end no process.",
        file="croniq_site/kernel/tracing.py",
        old='    except Exception as error:\n        _log.warning("no traces: %s", error)\n',
        new="    except ImportError:\n        pass\n",
        red=[TRACING + "test_what_the_sdk_refuses_ends_no_process"],
    ),
    Mutation(
        name="otel-edits-begin-traces",
        mechanism="What an edit of a job plans has its first span, as what a pass plans.",
        file="scheduler/services/planning.py",
        old="        if tracing.active is not None:\n            traces.note_planned(inserted,",
        new="        if False:\n            traces.note_planned(inserted,",
        red=[
            TRACES + "test_what_an_edit_or_a_backfill_plans_begins_its_trace_too",
            TRACES + "test_from_tick_to_ack_is_one_trace_for_each_run",
        ],
    ),
    Mutation(
        name="otel-backfills-begin-traces",
        mechanism="What a backfill makes has its first span.",
        file="scheduler/services/backfill.py",
        old="        traces.note_planned(made, [job], now)\n",
        new="        pass\n",
        red=[TRACES + "test_what_an_edit_or_a_backfill_plans_begins_its_trace_too"],
    ),
    Mutation(
        name="otel-moved-runs-begin-traces",
        mechanism="A run that new rules move into the past has its first span.",
        file="scheduler/services/rules.py",
        old="                traces.note_planned(made, [job], now)\n",
        new="                pass\n",
        red=[
            "tests/scheduler/planning/test_rules.py::test_a_run_that_would_be_past_by_the_new_rules_is_not_lost",
        ],
    ),
    Mutation(
        name="otel-off-makes-no-spans-of-claims",
        mechanism="Off, a claim calls nothing that makes spans.",
        file="scheduler/api/work/claiming.py",
        old="    if tracing.active is not None:\n",
        new="    if True:\n",
        red=[TRACES + "test_off_is_off"],
    ),
    Mutation(
        name="otel-replay-is-a-trace-of-its-own",
        mechanism="A replay does not take over what travelled with the original.",
        file="scheduler/services/replays.py",
        old="public_metadata(original.metadata) or None if metadata",
        new="original.metadata if metadata",
        red=[TRACES + "test_a_replay_is_a_trace_of_its_own"],
    ),
    Mutation(
        name="otel-the-sdks-span-is-below-the-servers",
        mechanism="The SDK's span has the place that the assignment says.",
        file="runners/agent/sdk_spans.py",
        old="context if place is None else below(place)",
        new="context",
        red=[AGENT + "test_the_sdks_span_is_below_what_the_assignment_says_and_is_its_own_where_it_says_nothing"],
    ),
    Mutation(
        name="otel-commands-are-told-their-trace",
        mechanism="A command is told its place in the trace.",
        file="runners/agent/handler.py",
        old='            | self._trace(ctx, "TRACEPARENT"),\n',
        new="            ,\n",
        red=[AGENT + "test_a_command_is_told_the_servers_span_or_the_runners_or_none"],
    ),
]
