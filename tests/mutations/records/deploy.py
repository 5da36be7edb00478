"""Deployment: what processes tell a service manager, and that the files of deploy/ are true."""

from tests.mutations.record import Mutation

UNIT, LIVE = "tests/kernel/test_service_manager.py::", "tests/e2e/test_service_manager.py::"
FACTS = "tests/deploy/test_facts.py::"
FORMATS = "tests/deploy/test_formats.py::"
VOICE = "croniq_site/kernel/service_manager.py"
SPOKEN = LIVE + "test_server_and_workers_say_when_they_are_ready_that_they_live_and_that_they_stop"

RECORDS = [
    Mutation(
        name="watchdog-is-fed-by-the-loop",
        mechanism="A worker says that it lives when its loop has come round.",
        file="croniq_site/kernel/loop.py",
        old="        close_old_connections()\n        alive()\n",
        new="        close_old_connections()\n",
        red=[
            UNIT + "test_the_loop_says_that_it_lives_after_a_pass_and_while_it_waits_but_never_while_a_pass_is_at_work"
        ],
    ),
    Mutation(
        name="watchdog-is-fed-while-waiting",
        mechanism="A worker whose next pass is far away says meanwhile that it lives.",
        file="croniq_site/kernel/loop.py",
        old="            pause -= alive_seconds\n            alive()\n",
        new="            pause -= alive_seconds\n",
        red=[
            UNIT + "test_the_loop_says_that_it_lives_after_a_pass_and_while_it_waits_but_never_while_a_pass_is_at_work"
        ],
        realtime=[SPOKEN],
    ),
    Mutation(
        name="watchdog-of-the-server-is-its-event-loop",
        mechanism="A server says that it lives in its event loop.",
        file="scheduler/api/work/server.py",
        old="            self._is_alive()\n",
        new="",
        realtime=[SPOKEN],
    ),
    Mutation(
        name="watchdog-of-several-is-for-all",
        mechanism="A server of several processes lives only while all of them do.",
        file=VOICE,
        old="        if len(heard) == members:\n",
        new="        if heard:\n",
        red=[UNIT + "test_of_several_processes_one_that_is_silent_keeps_the_others_from_being_heard"],
    ),
    Mutation(
        name="manager-never-holds-up-the-work",
        mechanism="A service manager that does not read holds up no work.",
        file=VOICE,
        old="            sender.setblocking(False)\n",
        new="",
        red=[UNIT + "test_a_manager_that_is_gone_or_does_not_read_neither_fails_nor_holds_up_the_work"],
    ),
    Mutation(
        name="manager-that-is-gone-is-no-failure",
        mechanism="A service manager that is gone fails no work.",
        file=VOICE,
        old="        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:\n",
        new="        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:\n",
        red=[UNIT + "test_a_manager_that_is_gone_or_does_not_read_neither_fails_nor_holds_up_the_work"],
    ),
    Mutation(
        name="workers-say-that-they-stop",
        mechanism="A worker that ends in good order says so.",
        file="scheduler/workers/process.py",
        old="        manager.stopping()\n",
        new="",
        realtime=[SPOKEN],
    ),
    Mutation(
        name="deploy-probe-asks-no-database",
        mechanism="A server is not killed because its database is away.",
        file="deploy/kubernetes/server.yaml",
        old="              path: /version\n",
        new="              path: /health\n",
        red=[FACTS + "test_a_server_is_not_killed_because_its_database_is_away"],
    ),
    Mutation(
        name="deploy-variables-are-settings",
        mechanism="A variable in a file of deploy/ that is no setting is found.",
        file="deploy/kubernetes/config.yaml",
        old="  CRONIQ_TIME_ZONE: UTC\n",
        new="  CRONIQ_TIMEZONE: UTC\n",
        red=[FACTS + "test_every_variable_that_is_named_is_one_of_the_settings"],
    ),
    Mutation(
        name="deploy-commands-take-their-arguments",
        mechanism="An option in a file of deploy/ that no command has is found.",
        file="deploy/systemd/croniq-runner.service",
        old="manage.py runner --drain-timeout 60\n",
        new="manage.py runner --drain 60s\n",
        red=[FACTS + "test_every_command_exists_and_takes_the_arguments"],
    ),
    Mutation(
        name="deploy-image-is-whole",
        mechanism="A folder of the product that is not in the image is found.",
        file="deploy/Dockerfile",
        old="COPY templates ./templates\n",
        new="",
        red=[FACTS + "test_the_image_holds_the_whole_product_and_runs_as_nobody_in_particular"],
    ),
    Mutation(
        name="deploy-manifests-are-kubernetes",
        mechanism="A field of a manifest that Kubernetes does not know is found.",
        file="deploy/kubernetes/server.yaml",
        old="          readinessProbe:\n",
        new="          readinesProbe:\n",
        red=[FORMATS + "test_kubernetes_takes_each_manifest"],
    ),
    Mutation(
        name="deploy-compose-files-are-compose",
        mechanism="A value in a compose file that Compose does not know is found.",
        file="deploy/compose/sqlite.yml",
        old="    restart: unless-stopped\n",
        new="    restart: until-stopped\n",
        red=[FORMATS + "test_compose_takes_each_file_and_what_it_refers_to_is_there"],
    ),
]
