"""The harness's own mechanisms: what keeps a record from being called proved when it is not."""

from tests.mutations.record import Mutation

TESTS = "tests/mutations/test_harness.py::"

RECORDS = [
    Mutation(
        name="mutations-hang-is-no-proof",
        mechanism="A run that did not end within its limit proves nothing, even when the named test was red before.",
        file="tests/mutations/verdict.py",
        old="    if run.timed_out:\n",
        new="    if False:\n",
        red=[TESTS + "test_only_a_failed_named_test_of_a_finished_run_is_a_proof[red before another test hung]"],
    ),
    Mutation(
        name="mutations-set-up-error-is-no-proof",
        mechanism="A named test whose set-up failed is not red: a broken schema would turn every test red.",
        file="tests/mutations/verdict.py",
        old='elif "failed" not in outcomes:',
        new='elif not {"failed", "error"} & set(outcomes):',
        red=[
            TESTS + "test_a_failing_set_up_proves_nothing",
            TESTS + "test_only_a_failed_named_test_of_a_finished_run_is_a_proof[only its set-up failed]",
        ],
    ),
    Mutation(
        name="mutations-each-database",
        mechanism="A named test must be red on each database of the record, not on one of them.",
        file="tests/mutations/verdict.py",
        old="elif database in record.databases:",
        new="elif database in record.databases[:0]:",
        red=[TESTS + "test_each_named_test_must_be_red_on_each_database_of_the_record"],
    ),
    Mutation(
        name="mutations-green-baseline",
        mechanism="Without a green suite before the mutation a red one after it says nothing.",
        file="tests/mutations/harness.py",
        old="if not run.is_green:",
        new="if False:",
        red=[TESTS + "test_a_red_suite_without_a_mutation_stops_everything"],
    ),
    Mutation(
        name="mutations-own-copy",
        mechanism="A run that imported the code of another tree is no run of the mutated one.",
        file="tests/mutations/reporter.py",
        old="and not Path(file).resolve().is_relative_to(TREE)",
        new="and False",
        red=[TESTS + "test_code_from_outside_the_copy_stops_everything"],
    ),
    Mutation(
        name="mutations-stale-text",
        mechanism="A text that does not occur exactly once makes the record an error instead of a mutation of nothing.",
        file="tests/mutations/record.py",
        old="        if found != 1:\n",
        new="        if found > 1:\n",
        red=[
            TESTS + "test_a_record_whose_text_is_missing_is_an_error_and_ends_no_other",
            TESTS + "test_a_wrong_record_says_what_is_wrong",
        ],
    ),
    Mutation(
        name="mutations-time-limit",
        mechanism="A run that hangs is killed at its limit.",
        file="tests/mutations/suite.py",
        old="except subprocess.TimeoutExpired:\n                timed_out = True",
        new="except subprocess.TimeoutExpired:\n                timed_out = False",
        red=[TESTS + "test_a_hang_is_reported_as_one_and_killed"],
    ),
    Mutation(
        name="mutations-leftovers",
        mechanism="Processes that a test left behind in sessions of their own end with the run.",
        file="tests/mutations/suite.py",
        old="                os.kill(int(entry.name), signal.SIGKILL)\n",
        new="",
        red=[TESTS + "test_a_process_that_a_test_left_in_a_session_of_its_own_is_ended"],
    ),
    Mutation(
        name="mutations-interrupt",
        mechanism="An interrupt kills the runs that are going on instead of waiting for them.",
        file="tests/mutations/harness.py",
        old="        except KeyboardInterrupt:\n            self.runner.stop()\n",
        new="        except KeyboardInterrupt:\n",
        red=[TESTS + "test_an_interrupt_leaves_nothing_running_and_nothing_behind"],
    ),
]
