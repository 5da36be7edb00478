"""HTTP jobs and secrets: what is sent, where it may go, and what nobody who reads the log learns."""

from tests.mutations.record import Edit, Mutation

ACTIONS = "scheduler/domain/http_action.py"
REFS = "scheduler/domain/secret_refs.py"
NAMES = "croniq_site/kernel/secret_names.py"
JOB = "runners/agent/http_job.py"
READING = "runners/agent/http_action.py"
ADDRESSES = "runners/agent/addresses.py"
SECRETS = "runners/agent/secrets.py"
HANDLER = "runners/agent/handler.py"

DOMAIN = "tests/scheduler/domain/test_actions.py::"
HTTP = "tests/runners/agent/test_http_job.py::"
HOSTS = "tests/runners/agent/test_addresses.py::"
HIDDEN = "tests/runners/agent/test_secrets.py::"
AGENT = "tests/runners/agent/test_agent.py::"
EDGE = "tests/scheduler/edge/test_commands.py::"
REFUSED = DOMAIN + "test_what_cannot_be_sent_is_refused_by_the_name_of_its_field"


def agent(name: str, mechanism: str, file: str, old: str, new: str, *red: str) -> Mutation:
    """What no database takes part in is looked at once."""
    return Mutation(name=name, mechanism=mechanism, file=file, old=old, new=new, red=red, database="sqlite")


RECORDS = [
    agent(
        "http-header-lines",
        "A header of an action is one line: nobody makes two requests of one.",
        ACTIONS,
        r'_HEADER_TEXT = re.compile(r"[\x20-\x7e\t]*", re.ASCII)',
        r'_HEADER_TEXT = re.compile(r"[\x20-\x7e\t\r\n]*", re.ASCII)',
        REFUSED,
    ),
    agent(
        "http-headers-of-the-connection",
        "No action sets the headers that frame a request.",
        ACTIONS,
        "if name.lower() in RUNNERS_OWN:",
        "if False:",
        REFUSED,
    ),
    agent(
        "http-schemes",
        "Only http and https are requested.",
        ACTIONS,
        'parts.scheme in ("http", "https")',
        "parts.scheme",
        REFUSED,
    ),
    agent(
        "http-no-user-in-urls",
        "A URL has no password in it: it would be on every page.",
        ACTIONS,
        'if "@" in parts.netloc:',
        "if False:",
        REFUSED,
    ),
    agent(
        "secret-names-are-checked",
        "A reference is refused where its name is that of no secret.",
        REFS,
        'if not is_secret_name(value["secret"]):',
        "if False:",
        REFUSED,
        DOMAIN + "test_a_commands_environment_takes_secrets_by_name",
    ),
    agent(
        "secrets-are-not-croniqs-own",
        "No reference reaches the server's own key, or the variable that says where another secret lies.",
        NAMES,
        'return name.upper() not in ("KEY", "KEY_FILE") and not name.upper().endswith("_FILE")',
        "return True",
        REFUSED,
        HIDDEN + "test_no_reference_reaches_the_servers_own_key_or_another_secrets_file",
    ),
    Mutation(
        name="http-runs-go-to-runners-of-http",
        mechanism="An HTTP job prefers runners that say they execute requests.",
        file="scheduler/domain/actions.py",
        old='[HTTP if action["type"] == "http" else COMMAND]',
        new="[COMMAND]",
        red=[EDGE + "test_an_http_job_goes_to_runners_of_http_and_those_of_commands_only_never_get_it"],
    ),
    Mutation(
        name="runner-of-some-actions-only",
        mechanism="A runner without handlers is offered only what it says that it executes.",
        file="croniq_site/kernel/capabilities.py",
        old="frozenset(has & {COMMAND, HTTP}) or frozenset([COMMAND])",
        new="frozenset([COMMAND, HTTP])",
        red=[
            EDGE + "test_an_http_job_goes_to_runners_of_http_and_those_of_commands_only_never_get_it",
            EDGE + "test_a_runner_of_requests_only_never_gets_a_command",
        ],
    ),
    agent(
        "http-only-starts-no-command",
        "A runner of requests only starts no command, whoever sends it one.",
        HANDLER,
        "elif self._http_only:",
        "elif False:",
        AGENT + "test_a_runner_of_requests_only_says_so_and_starts_no_command",
    ),
    agent(
        "http-status-decides",
        "A status that was not expected is a failure.",
        JOB,
        "        if not self._action.expects(response.status):\n",
        "        if False:\n",
        HTTP + "test_another_status_is_the_error_and_what_counts_as_success_can_be_said",
        AGENT + "test_a_request_is_executed_with_the_runs_identity_and_its_answer_is_the_log",
    ),
    agent(
        "http-answers-are-bounded-in-the-log",
        "The log keeps max_response bytes of an answer.",
        JOB,
        "shown = data[: self._left]",
        "shown = data",
        HTTP + "test_a_hundred_megabytes_are_read_to_the_end_and_the_log_keeps_the_beginning",
    ),
    agent(
        "http-bound-drops-half-a-secret",
        "A bound that cuts a secret in two shows neither half.",
        JOB,
        "                    self._masked = self._sink.mask.stream()\n",
        "                    pass\n",
        HTTP + "test_a_bound_that_cuts_a_secret_in_two_shows_neither_half",
    ),
    agent(
        "http-packed-answers-stay-packed",
        "A compressed answer is not unpacked and not shown.",
        JOB,
        "            self._left = 0\n",
        "            pass\n",
        HTTP + "test_a_compressed_answer_is_not_unpacked",
    ),
    agent(
        "http-time-limit",
        "A request that takes longer than its time limit is ended.",
        JOB,
        "asyncio.timeout(limit),",
        "asyncio.timeout(None),",
        HTTP + "test_a_server_that_hangs_costs_the_time_limit_and_the_connection_is_closed",
    ),
    agent(
        "http-broken-answers-fail",
        "An answer that breaks off is a failure of the run, in a sentence.",
        JOB,
        "except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:",
        "except httpcore.TimeoutException as error:",
        HTTP + "test_an_answer_that_breaks_off_or_is_none_is_a_failure_in_a_sentence",
        HTTP + "test_nobody_who_listens_is_named",
    ),
    agent(
        "http-redirects-are-off",
        "A redirect is followed only where the action says so.",
        JOB,
        'if self._action.redirects == "none":',
        "if False:",
        HTTP + "test_a_redirect_is_not_followed_unless_the_action_says_so",
    ),
    agent(
        "http-redirects-stay-on-the-host",
        "A redirect to another host needs a word of its own.",
        JOB,
        'if is_elsewhere and self._action.redirects != "any":',
        "if False:",
        HTTP + "test_a_redirect_to_another_host_needs_a_word_and_takes_no_header_of_the_actions_along",
    ),
    agent(
        "http-redirects-take-no-secrets-along",
        "To another host go none of the action's headers.",
        JOB,
        "if name.lower() in _KEPT_ELSEWHERE)",
        "if True)",
        HTTP + "test_a_redirect_to_another_host_needs_a_word_and_takes_no_header_of_the_actions_along",
    ),
    agent(
        "http-redirects-keep-tls",
        "No redirect goes from https to http.",
        JOB,
        'if source.scheme == "https" and target.scheme == "http":',
        "if False:",
        HTTP + "test_a_redirect_never_leaves_tls",
    ),
    agent(
        "http-redirects-end",
        "Redirects that go round end after ten.",
        JOB,
        "for _ in range(_MOST_REDIRECTS + 1):",
        "for _ in range(1000):",
        HTTP + "test_redirects_that_go_round_end",
    ),
    agent(
        "http-metadata-addresses",
        "What gives out a machine's credentials is not connected to.",
        ADDRESSES,
        "        if closed:\n",
        "        if False:\n",
        HOSTS + "test_what_gives_out_credentials_is_opened_by_no_name_and_by_no_wide_network",
        HTTP + "test_an_address_that_gives_out_credentials_is_not_connected_to",
        HTTP + "test_a_redirect_is_held_to_the_same_rules",
    ),
    agent(
        "http-addresses-in-other-clothes",
        "An IPv4 address that comes as one of IPv6 is looked at as what it is.",
        ADDRESSES,
        "        address = _inner(address)\n",
        "",
        HOSTS + "test_what_gives_out_credentials_is_opened_by_no_name_and_by_no_wide_network",
        HOSTS + "test_who_names_it_may_have_it",
    ),
    agent(
        "http-connects-to-what-was-looked-at",
        "A name is resolved once: what was looked at is what is connected to.",
        ADDRESSES,
        "stream = await self._plain.connect_tcp(address, port, CONNECT_SECONDS)",
        "stream = await self._plain.connect_tcp(host, port, CONNECT_SECONDS)",
        HTTP + "test_a_name_is_resolved_once_and_what_was_looked_at_is_connected_to",
    ),
    agent(
        "http-allow-names",
        "Where hosts are named, no other is connected to.",
        ADDRESSES,
        "if listed or not (self.names or self.networks) or self._has_name(_plain(host)):",
        "if True:",
        HOSTS + "test_everything_else_is_open_unless_rules_say_what_is",
        HOSTS + "test_names_are_whole_names",
    ),
    agent(
        "http-handshakes-leave-nothing-open",
        "A TLS handshake whose time is over leaves no connection open.",
        ADDRESSES,
        "            await stream.aclose()\n",
        "            pass\n",
        HTTP + "test_a_handshake_that_does_not_end_costs_the_time_limit_and_the_connection_is_closed",
    ),
    agent(
        "http-every-address-is-tried",
        "A name of which one address does not answer is tried at its next.",
        ADDRESSES,
        "        for address in allowed:\n",
        "        for address in allowed[:1]:\n",
        HTTP + "test_a_name_that_has_two_addresses_is_tried_at_both",
    ),
    agent(
        "secrets-are-masked-in-lines",
        "What a command prints of its secrets is hidden, also over the end of a line's piece.",
        "runners/agent/output.py",
        "self._splitter.feed(self._masked.feed(data))",
        "self._splitter.feed(data)",
        HIDDEN + "test_a_command_gets_its_secret_and_what_it_prints_of_it_is_hidden",
    ),
    agent(
        "secrets-are-masked-in-answers",
        "What an answer repeats of a secret is hidden, though it comes byte by byte.",
        JOB,
        "self._splitter.feed(self._masked.feed(shown))",
        'self._splitter.feed(self._sink.mask.text(shown.decode("latin-1")).encode("latin-1"))',
        HTTP + "test_secrets_reach_the_server_and_nobody_who_reads_the_log",
    ),
    agent(
        "secrets-are-masked-in-errors",
        "The error of a run tells no secret.",
        HANDLER,
        "text = secrets.mask().text(str(error))",
        "text = str(error)",
        HIDDEN + "test_a_command_gets_its_secret_and_what_it_prints_of_it_is_hidden",
    ),
    agent(
        "secrets-are-masked-in-other-forms",
        "A secret is hidden also as JSON and URLs write it.",
        SECRETS,
        "for form in _forms(text) if form",
        "for form in (text,)",
        HIDDEN + "test_the_forms_in_which_answers_repeat_a_secret_are_hidden_too",
        HTTP + "test_secrets_reach_the_server_and_nobody_who_reads_the_log",
    ),
    agent(
        "secrets-beginnings-wait",
        "The end of a piece that may be the beginning of a secret waits for the next piece.",
        SECRETS,
        "        at, waits = 0, self._beginning_at(data, 0)\n",
        "        at, waits = 0, len(data)\n",
        HIDDEN + "test_a_secret_in_pieces_is_hidden",
        HIDDEN + "test_pieces_are_masked_as_the_whole_is",
    ),
    agent(
        "secrets-longest-first",
        "Of two secrets of which one begins with the other none leaves its end behind.",
        SECRETS,
        "key=len, reverse=True)",
        "key=len)",
        HIDDEN + "test_a_secret_in_pieces_is_hidden",
    ),
    agent(
        "secrets-are-nobody-elses",
        "No option hands the runner's secrets to jobs that do not refer to them.",
        "runners/agent/environment.py",
        "return name in SECRET or name.startswith(VARIABLE)",
        "return name in SECRET",
        HIDDEN + "test_no_option_hands_secrets_to_every_job",
        "tests/runners/test_runner_command.py::test_nonsense_is_refused_by_the_options_name",
    ),
    agent(
        "secrets-that-are-not-here",
        "A secret that the runner has not ends the run with its name, and nothing is sent.",
        SECRETS,
        "        if secret is None:\n            raise",
        '        if secret is None:\n            return ""\n            raise',
        HTTP + "test_a_secret_that_is_not_here_is_named_and_nothing_is_sent",
        HIDDEN + "test_what_cannot_be_had_is_named_and_says_why",
    ),
    Mutation(
        name="http-key-is-the-runs",
        mechanism="The receiver is told which run it is, the same at every attempt, and may have its own key.",
        edits=[
            Edit(
                READING,
                '    of_run = {name: value for name, value in identity.items() if name != "Idempotency-Key"}\n',
                "    of_run = identity\n",
            )
        ],
        red=[HTTP + "test_what_is_sent_is_what_the_action_says_and_which_run_it_is"],
        database="sqlite",
    ),
    agent(
        "http-all-of-the-path",
        "All of a URL's path is sent: the library drops what follows a semicolon of a text.",
        JOB,
        "async with pool.stream(request.method, url, headers",
        "async with pool.stream(request.method, request.url, headers",
        HTTP + "test_all_of_a_path_is_sent_also_what_follows_a_semicolon",
    ),
    agent(
        "http-ipv4-in-every-ipv6",
        "An IPv6 address that stands for an IPv4 one in whatever way is as closed as that one.",
        ADDRESSES,
        "        if is_written_out or (number >> 32) & 0xFFFF_FFFF in _ISATAP:",
        "        if address in _ENDS_IN_IPV4[0]:",
        HOSTS + "test_what_gives_out_credentials_is_opened_by_no_name_and_by_no_wide_network",
    ),
]
