"""What a breaker found at the door: slow clients, dear bodies, texts from outside, and other tenants' runs."""

from tests.mutations.record import Edit, Mutation

SLOW, HTTP = "tests/site/test_slow_clients.py::", "tests/scheduler/edge/test_http.py::"
PARSING, TENANTS = "tests/scheduler/edge/test_parsing.py::", "tests/scheduler/edge/test_tenants.py::"
ACCESS, ADMIN = "tests/scheduler/dashboard/test_access.py::", "tests/scheduler/test_admin.py::"
UNKNOWN = TENANTS + "test_another_tenants_run_is_as_unknown_as_one_that_never_was"

RECORDS = [
    Mutation(
        name="bodies-are-whole-before-a-thread",
        mechanism="A body is read in the event loop; a thread of the pages waits for none.",
        file="croniq_site/asgi.py",
        old="await (self.edge if is_work else self._page)(",
        new="await (self.edge if is_work else self._pages)(",
        red=[
            SLOW + "test_bodies_that_never_end_do_not_stop_the_pages",
            SLOW + "test_a_body_in_chunks_is_read",
        ],
    ),
    Mutation(
        name="bodies-have-a-deadline",
        mechanism="A body that is not complete in time is given up with 408, and its connection closed.",
        file="scheduler/api/work/connection.py",
        old="                self._expect(BODY_SECONDS)\n        elif",
        new="                pass\n        elif",
        red=[SLOW + "test_a_body_that_never_ends_is_given_up"],
    ),
    Mutation(
        name="page-bodies-are-bounded",
        mechanism="A body for Django is bounded while it is read.",
        file="croniq_site/asgi.py",
        old="receive, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)",
        new="receive, 2**62)",
        red=[SLOW + "test_a_body_that_no_page_takes_is_refused_before_it_is_read"],
    ),
    Mutation(
        name="chunked-bodies-have-a-length",
        mechanism="Django is told the length of a body that came in chunks.",
        file="croniq_site/asgi.py",
        old='[*kept, (b"content-length", str(len(body)).encode())]',
        new='scope["headers"]',
        red=[SLOW + "test_a_body_in_chunks_is_read"],
    ),
    Mutation(
        name="answers-wait-in-memory",
        mechanism="An answer that its client does not read holds no thread.",
        file="croniq_site/asgi.py",
        old="send_queue_size=0",
        new="send_queue_size=10",
        red=[SLOW + "test_answers_that_nobody_reads_hold_no_thread"],
    ),
    Mutation(
        name="lines-name-a-runner-by-name",
        mechanism="The runner that log lines name is a printable name of bounded length.",
        file="scheduler/api/work/parsing.py",
        old='runner_id = _named(runner_id, f"{place}.fields.runner_id")',
        new="runner_id = str(runner_id)",
        red=[PARSING + "test_the_runner_that_lines_name_is_read_as_every_name_is"],
    ),
    Mutation(
        name="foreign-runs-are-unknown",
        mechanism="A late word about another tenant's run is 404 and leaves its audit alone.",
        file="scheduler/services/late.py",
        old=" and word.principal.sees(jobs[word.run_id][1])",
        new="",
        red=[UNKNOWN],
    ),
    Mutation(
        name="foreign-holders-are-not-named",
        mechanism="Lines for another tenant's run are refused before its runner is named.",
        file="scheduler/api/work/events.py",
        old="if not principal.sees(tenant):",
        new="if False:",
        red=[UNKNOWN],
    ),
    Mutation(
        name="session-keys-are-checked",
        mechanism="A cookie that could be no session's key is not looked for.",
        file="croniq_site/sessions.py",
        old="return key is not None and _KEY.fullmatch(key) is not None",
        new="return bool(key) and len(key) >= 8",
        red=[ACCESS + "test_a_session_key_that_was_never_given_out_is_none"],
    ),
    Mutation(
        name="current-address-is-text",
        mechanism="A header of htmx that is no address leads to the sign-in page.",
        file="scheduler/dashboard/pages.py",
        old="except ValueError:  # no address at all",
        new="except ZeroDivisionError:",
        red=[ACCESS + "test_a_part_whose_address_is_none_leads_to_sign_in_all_the_same"],
    ),
    Mutation(
        name="values-are-counted-before-they-are-read",
        mechanism="A body of too many values is refused unread.",
        file="scheduler/api/work/parsing.py",
        old="if has_more_values(body, MOST_VALUES):",
        new="if False:",
        red=[
            PARSING + "test_megabytes_that_are_dear_to_read_are_not_read",
            PARSING + "test_two_hundred_thousand_values_are_read_and_no_more",
        ],
    ),
    Mutation(
        name="values-are-counted-outside-of-texts",
        mechanism="Brackets and commas inside of texts are no values.",
        file="croniq_site/kernel/json_bounds.py",
        old="""plain.split(b'"')[::2]""",
        new="[plain]",
        red=[PARSING + "test_a_text_of_megabytes_is_no_number_of_values"],
    ),
    Mutation(
        name="polls-and-renewals-are-small",
        mechanism="A poll or a renewal may have 1 MiB.",
        edits=[
            Edit(
                file=f"scheduler/api/work/{name}.py",
                old="read_body(scope, receive, SMALL_BODY_BYTES)",
                new="read_body(scope, receive, 2**62)",
            )
            for name in ("poll", "renew")
        ],
        red=[HTTP + "test_a_body_over_the_limit_is_413_whether_it_says_so_or_not"],
    ),
    Mutation(
        name="admin-searches-are-bounded",
        mechanism="A search of the admin has a bound of words and of characters.",
        file="runners/admin.py",
        old="if len(term) <= MOST_SEARCHED and sum(1 for word in smart_split(term)) <= MOST_WORDS:",
        new="if True:",
        red=[ADMIN + "test_a_search_has_an_end"],
    ),
]
