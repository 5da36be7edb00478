"""The log of a run: what is shown of it, how it is followed, and what that may cost."""

from tests.mutations.record import Edit, Mutation

PAGE = "tests/scheduler/dashboard/test_log.py::"
LINES = "tests/scheduler/dashboard/test_log_lines.py::"
TAILS = "tests/scheduler/dashboard/test_tails.py::"
MARKUP = "tests/scheduler/dashboard/test_markup.py::"

VIEW = "scheduler/dashboard/log.py"
LOOKS = "scheduler/dashboard/log_lines.py"
HUB = "scheduler/dashboard/tails.py"
QUERIES = "scheduler/queries/log_pages.py"

RECORDS = [
    Mutation(
        name="pages-log-state-before-lines",
        mechanism="The state of a run is read before its lines, so that its end is told only after its last line.",
        file=VIEW,
        old="    is_done = is_over(detail) and not has_more",
        new="    is_done = is_over(detail_of(run_id, now)) and not has_more",
        red=[PAGE + "test_a_line_that_is_written_in_the_last_moment_is_not_missed"],
    ),
    Mutation(
        name="pages-log-winding-down",
        mechanism="The log of a cancelled run is followed until its handler is gone.",
        file=VIEW,
        old="return detail.row.completed_at is not None and not detail.row.is_winding_down",
        new="return detail.row.completed_at is not None",
        red=[PAGE + "test_what_a_handler_still_says_after_a_cancel_is_followed"],
    ),
    Mutation(
        name="pages-log-live-by-get",
        mechanism="Only a GET is gone on with: nobody reads what follows the answer to a HEAD.",
        file=VIEW,
        old='    if not is_done and request.method == "GET":',
        new="    if not is_done:",
        red=[PAGE + "test_where_a_stream_goes_on_is_told_to_the_server_alone_and_by_get"],
    ),
    Mutation(
        name="pages-log-resumes",
        mechanism="A stream that is asked for again goes on after the last line that its reader has.",
        file=VIEW,
        old='_place_in(request, "after", request.headers.get("Last-Event-ID"))',
        new='_place_in(request, "after")',
        red=[TAILS + "test_a_stream_that_broke_goes_on_without_a_gap_or_a_line_twice"],
    ),
    Mutation(
        name="pages-log-page-ends-where-it-is-full",
        mechanism="An answer holds no more lines than fit into it, and the next one begins after the last of them.",
        file=LOOKS,
        old="        if elements and most_bytes < 0:",
        new="        if elements and False:",
        red=[
            PAGE + "test_a_page_of_long_lines_ends_where_it_is_full_and_goes_on_there",
            LINES + "test_an_answer_has_as_many_lines_as_fit_and_at_least_one",
        ],
    ),
    Mutation(
        name="pages-log-escaped",
        mechanism="What a handler says is text on the page, whatever it contains.",
        file=LOOKS,
        old="        return escape(text)",
        new="        return SafeString(text)",
        red=[
            LINES + "test_what_a_handler_writes_is_no_markup",
            MARKUP + "test_nothing_that_a_caller_wrote_becomes_markup",
        ],
    ),
    Mutation(
        name="pages-log-controls-are-shown",
        mechanism="Controls and what turns a text around are shown as signs and not obeyed.",
        file=LOOKS,
        old="    return with_signs(",
        new="    return (",
        red=[
            LINES + "test_what_a_terminal_would_obey_is_taken_out_or_shown",
            LINES + "test_an_event_says_its_lines_and_where_to_go_on",
        ],
    ),
    Mutation(
        name="pages-log-lines-of-an-event",
        mechanism="Each line of an event begins as data: no message begins an event of its own.",
        file=LOOKS,
        old='whole.removesuffix("\\n").split("\\n")',
        new='[whole.removesuffix("\\n")]',
        red=[LINES + "test_an_event_says_its_lines_and_where_to_go_on"],
    ),
    Mutation(
        name="pages-log-search-is-bounded",
        mechanism="One search looks at so many lines, and says how far it came.",
        file=QUERIES,
        old="    has_more, seen = len(seen) > SCAN_LINES, seen[:SCAN_LINES]",
        new='    has_more, seen = False, list(rows.values_list("id", "level"))',
        red=[PAGE + "test_a_search_finds_lines_with_their_numbers_and_says_how_far_it_came"],
    ),
    Mutation(
        name="pages-log-found-lines-keep-their-numbers",
        mechanism="A line that was found has the number that it has in the whole log.",
        file=QUERIES,
        old="    return tuple(Line(places[row.id], row) for row in found), reached, has_more",
        new="    return tuple(Line(Place(row.id, n), row) for n, row in enumerate(found, 1)), reached, has_more",
        red=[PAGE + "test_a_search_finds_lines_with_their_numbers_and_says_how_far_it_came"],
    ),
    Mutation(
        name="pages-log-places-by-id",
        mechanism="A page goes on after the line it ended with, also when older ones were thrown away meanwhile.",
        file=QUERIES,
        old='    rows = RunLog.objects.filter(run_id=run_id, id__gt=place.id).order_by("id")',
        new='    rows = RunLog.objects.filter(run_id=run_id).order_by("id")[place.number :]',
        red=[PAGE + "test_numbers_and_places_stay_while_old_lines_are_thrown_away"],
    ),
    Mutation(
        name="pages-log-by-level",
        mechanism="Lines below the chosen level are left out, on pages and in streams.",
        file=QUERIES,
        old="        if not filters.least or is_at_least(level, filters.least)",
        new="        if True",
        red=[
            PAGE + "test_levels_are_filtered_whatever_they_are_called",
            PAGE + "test_a_stream_is_searched_like_the_page",
        ],
    ),
    Mutation(
        name="tails-go-on",
        mechanism="A stream goes on after Django's answer while its run does.",
        file="croniq_site/asgi.py",
        old='if scope["path"].endswith(PATH_END):',
        new="if False:",
        red=[
            TAILS + "test_lines_arrive_as_they_are_written_until_the_run_is_over",
            TAILS + "test_many_lines_at_once_come_in_their_order",
        ],
        realtime=[TAILS + "test_a_log_is_followed_in_a_real_server_through_the_runners_own_words"],
    ),
    Mutation(
        name="tails-end-with-the-right-to-look",
        mechanism="A stream ends within seconds of the session or the role of its reader.",
        file=HUB,
        old="                            if tail.session_key not in allowed:",
        new="                            if False:",
        red=[TAILS + "test_whoever_may_not_look_any_more_is_told_nothing_more"],
    ),
    Mutation(
        name="tails-wait-for-nobody-who-may-not-look",
        mechanism="A stream that is ended waits no longer for a reader who does not read: its place is free.",
        file=HUB,
        old="            self._telling.reschedule(0)\n",
        new="            pass\n",
        red=[TAILS + "test_who_does_not_read_keeps_no_place_once_he_may_not_look"],
    ),
    Mutation(
        name="tails-looked-after-from-their-first-answer",
        mechanism="Who may still look is asked as soon as a stream has its place, whether its reader reads or not.",
        edits=[
            Edit(HUB, "                    self._look_at_all(pool)\n", ""),
            Edit(HUB, "        gone = asyncio", "        self._look_at_all(pool)\n        gone = asyncio"),
        ],
        red=[TAILS + "test_who_does_not_read_keeps_no_place_once_he_may_not_look"],
    ),
    Mutation(
        name="tails-bounded",
        mechanism="A process has so many streams; whoever comes then is answered at once and asks again.",
        file=HUB,
        old="if order is not None and len(self._tails) < MOST_TAILS and",
        new="if order is not None and",
        red=[TAILS + "test_beyond_their_number_a_stream_is_an_answer_that_is_asked_for_again"],
    ),
    Mutation(
        name="tails-state-before-lines",
        mechanism="A stream tells the end of its run only after lines that were read later than that it is over.",
        file=HUB,
        old="= await pool.read(tail.order.read)\n",
        new="= await pool.read(tail.order.read)\n                is_over = tail.is_over\n",
        red=[TAILS + "test_a_line_of_the_last_moment_is_told_before_the_end"],
    ),
    Mutation(
        name="tails-are-freed",
        mechanism="A stream whose reader has gone is one no more.",
        file=HUB,
        old='    while (await receive())["type"] != "http.disconnect":\n        pass\n    tail.end()\n',
        new='    while (await receive())["type"] != "http.disconnect":\n        pass\n',
        red=[TAILS + "test_streams_cost_neither_threads_nor_connections_while_they_wait"],
    ),
    Mutation(
        name="tails-stop-with-their-server",
        mechanism="A server that stops ends its streams in good order.",
        file="croniq_site/asgi.py",
        old="        self.tails.stop()\n",
        new="",
        red=[TAILS + "test_a_server_that_stops_ends_its_streams"],
    ),
    Mutation(
        name="tails-order-stays-inside",
        mechanism="What Django tells the server about a stream is told to nobody else.",
        file=HUB,
        old='            order = Order.of_text(value.decode("latin-1"))\n        else:\n            others',
        new='            order = Order.of_text(value.decode("latin-1"))\n        if True:\n            others',
        red=[TAILS + "test_lines_arrive_as_they_are_written_until_the_run_is_over"],
    ),
    Mutation(
        name="tails-outlive-an-outage",
        mechanism="A database that is away ends streams, which are asked for again, and not the look at later ones.",
        file=HUB,
        old="                except Exception as error:\n",
        new="                except ZeroDivisionError as error:\n",
        red=[TAILS + "test_a_database_that_is_away_ends_streams_and_no_server"],
    ),
]
