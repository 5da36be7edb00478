"""The pages and the admin: who may look and act, what is sent again, what nobody may write or see."""

from tests.mutations.record import Edit, Mutation

ACCESS = "tests/scheduler/dashboard/test_access.py::"
JOBS = "tests/scheduler/dashboard/test_jobs.py::"
RUNS = "tests/scheduler/dashboard/test_runs.py::"
RUN = "tests/scheduler/dashboard/test_run.py::"
MARKUP = "tests/scheduler/dashboard/test_markup.py::"
COUNTS = "tests/scheduler/dashboard/test_query_counts.py::"
WORDS = "tests/scheduler/dashboard/test_words.py::"
ADMIN = "tests/scheduler/test_admin.py::"
CLIENTS = "tests/runners/test_admin.py::"

PAGES = "scheduler/dashboard/pages.py"
OVERVIEW = "scheduler/queries/overview.py"

RECORDS = [
    Mutation(
        name="pages-search-cases",
        mechanism="A search finds letters of the other case, those of all alphabets, on both databases.",
        file="scheduler/queries/search.py",
        old="if len(cases) > 1:",
        new="if len(cases) > 1 and character.isascii():",
        red=["tests/scheduler/dashboard/test_jobs.py::test_a_search_knows_the_cases_of_all_letters_and_no_pattern"],
    ),
    Mutation(
        name="pages-search-no-pattern",
        mechanism="What a person searches for is no pattern.",
        file="scheduler/queries/search.py",
        old='return f"\\\\{character}" if',
        new='return f"{character}" if',
        red=["tests/scheduler/dashboard/test_jobs.py::test_a_search_knows_the_cases_of_all_letters_and_no_pattern"],
    ),
    Mutation(
        name="pages-sign-in",
        mechanism="No page is answered to somebody who is not signed in.",
        file=PAGES,
        old="answer() if request.user.is_authenticated else _sign_in(request)",
        new="answer()",
        red=[ACCESS + "test_whoever_is_not_signed_in_is_sent_to_sign_in_and_comes_back"],
    ),
    Mutation(
        name="pages-poll-after-the-session",
        mechanism="A part that polls after the session ended sends the whole page to sign in.",
        file=PAGES,
        old="    if request.htmx:\n        # A part",
        new="    if False:\n        # A part",
        red=[ACCESS + "test_a_part_that_polls_after_the_session_ended_takes_the_whole_page_to_sign_in"],
    ),
    Mutation(
        name="pages-never-cached",
        mechanism="No page is kept by a browser or a proxy.",
        file=PAGES,
        old="    add_never_cache_headers(response)\n",
        new="",
        red=[ACCESS + "test_whoever_is_not_signed_in_is_sent_to_sign_in_and_comes_back"],
    ),
    Mutation(
        name="pages-permission-to-act",
        mechanism="Acting needs the permission to change jobs.",
        file=PAGES,
        old="        def act() -> HttpResponse:\n            _let(request, needs)\n",
        new="        def act() -> HttpResponse:\n",
        red=[
            ACCESS + "test_only_the_permission_lets_a_person_act",
            ACCESS + "test_only_the_permission_lets_a_person_cancel",
        ],
    ),
    Mutation(
        name="pages-act-by-post",
        mechanism="An action is a POST and never a link.",
        file=PAGES,
        old='_answered(request, ("POST",), act)',
        new='_answered(request, ("POST", "GET"), act)',
        red=[ACCESS + "test_an_action_is_never_a_link"],
    ),
    Mutation(
        name="pages-outage",
        mechanism="While the database is away a page says so, and asks it nothing more.",
        file=PAGES,
        old="        if not is_outage(error):\n            raise\n",
        new="        raise\n",
        red=[ACCESS + "test_without_a_database_a_page_says_so_without_one"],
    ),
    Mutation(
        name="pages-refusal-is-a-message",
        mechanism="A full queue or a finished run is a message on the page that a person comes from.",
        file=PAGES,
        old="if refusal.status not in (409, 429) or",
        new="if True or",
        red=[
            JOBS + "test_run_now_of_a_full_queue_is_a_message",
            RUN + "test_cancelling_what_is_finished_is_a_message",
        ],
    ),
    Mutation(
        name="pages-unchanged-is-not-sent",
        mechanism="A live part that shows everything already is not replaced.",
        file=PAGES,
        old='if request.GET.get("seen") == seen else',
        new="if False else",
        red=[
            JOBS + "test_the_list_is_sent_again_only_when_it_changed",
            RUNS + "test_the_head_of_the_list_asks_again_and_gets_only_what_is_new",
            RUN + "test_the_head_of_a_run_follows_it_to_its_end",
        ],
    ),
    Mutation(
        name="pages-part-varies",
        mechanism="A page and its part, of one address, are told apart by caches.",
        file=PAGES,
        old='    patch_vary_headers(response, ["HX-Request"])\n',
        new="",
        red=[JOBS + "test_the_list_is_sent_again_only_when_it_changed"],
    ),
    Mutation(
        name="pages-place-is-an-instant",
        mechanism="A place in a list without an offset is refused and not read in the server's zone.",
        file=PAGES,
        old="        if instant.tzinfo is None:\n            raise ValueError\n",
        new="",
        red=[RUNS + "test_nonsense_in_the_address_is_a_page_that_names_the_field"],
    ),
    Mutation(
        name="pages-place-out-of-time",
        mechanism="A place in a list beyond the calendar is refused like other nonsense.",
        file=PAGES,
        old="except (ValueError, OverflowError):",
        new="except ValueError:",
        red=[RUNS + "test_nonsense_in_the_address_is_a_page_that_names_the_field"],
    ),
    Mutation(
        name="pages-text-is-cleaned",
        mechanism="A filter with a NUL in it is a text that matches nothing.",
        file=PAGES,
        old='cleaned(request.GET.get(name, "").strip(), TEXT_MOST_BYTES)',
        new='request.GET.get(name, "").strip()',
        red=[RUNS + "test_odd_bytes_in_a_filter_match_nothing_and_break_nothing"],
        database="postgresql",
    ),
    Mutation(
        name="pages-run-now-once",
        mechanism="A form that is sent twice makes one run.",
        file="scheduler/dashboard/jobs.py",
        old='f"page {key}" if key else None',
        new="None",
        red=[JOBS + "test_run_now_makes_one_run_however_often_the_form_is_sent"],
    ),
    Mutation(
        name="pages-planned-in-order",
        mechanism="Of planned runs of one instant none is lost between two pages.",
        file="scheduler/queries/runs.py",
        old="rows.filter(scheduled_for__gte=at).filter(Q(scheduled_for__gt=at) | Q(id__gt=run_id))",
        new="rows.filter(scheduled_for__gt=at)",
        red=[RUNS + "test_planned_runs_go_on_too"],
    ),
    Mutation(
        name="pages-older-stand-still",
        mechanism="Only the head of the list of runs keeps itself up to date.",
        file="templates/dashboard/_runs.html",
        old="{% if is_top %} data-live",
        new="{% if True %} data-live",
        red=[RUNS + "test_an_older_page_stands_still"],
    ),
    Mutation(
        name="pages-last-result",
        mechanism="The last result is that of a finished run, not of one that waits or runs.",
        file=OVERVIEW,
        old="verdict__isnull=False, scheduled_for__lte=now",
        new="scheduled_for__lte=now",
        red=[JOBS + "test_a_run_that_is_planned_or_runs_is_no_result"],
    ),
    Mutation(
        name="pages-fires-once",
        mechanism="An instant at which two triggers fire is one fire.",
        file="scheduler/queries/job_ahead.py",
        old="rows = [_fire(job, found[at], at in skipped) for at in instants]",
        new="rows = [_fire(job, [one], at in skipped) for at in instants for one in found[at]]",
        red=[JOBS + "test_the_fires_of_two_triggers_are_one_list_without_doubles"],
    ),
    Mutation(
        name="pages-broken-trigger",
        mechanism="A trigger that cannot be read breaks no page.",
        file=OVERVIEW,
        old="    except (InvalidInput, ValueError):  # broken",
        new="    except KeyError:  # broken",
        red=[JOBS + "test_a_trigger_that_is_nonsense_breaks_no_page"],
    ),
    Mutation(
        name="pages-jobs-in-order",
        mechanism="A list of jobs goes on after the last one shown.",
        file=OVERVIEW,
        old="filter(job_key__gt=after)",
        new="filter(job_key__gte=after)",
        red=[JOBS + "test_a_long_list_goes_on_where_it_ended"],
    ),
    Mutation(
        name="pages-queries-of-jobs",
        mechanism="The triggers of all jobs of a page are one query.",
        file=OVERVIEW,
        old='Trigger.objects.select_related("calendar").order_by("created_at", "id")',
        new='Trigger.objects.order_by("created_at", "id")',
        red=[COUNTS + "test_the_queries_of_a_page_do_not_depend_on_its_rows"],
    ),
    Mutation(
        name="pages-policy",
        mechanism="The Content-Security-Policy allows no inline script.",
        file="croniq_site/settings.py",
        old='"script-src": ["\'self\'"]',
        new='"script-src": ["\'self\'", "\'unsafe-inline\'"]',
        red=[MARKUP + "test_the_policy_of_every_answer_forbids_inline_and_other_hosts"],
    ),
    Mutation(
        name="pages-htmx-without-eval",
        mechanism="htmx evaluates nothing and injects no style.",
        file="templates/base.html",
        old='"includeIndicatorStyles": false, "allowEval": false',
        new='"includeIndicatorStyles": true, "allowEval": true',
        red=[MARKUP + "test_htmx_neither_evaluates_nor_injects_nor_leaves_the_site"],
    ),
    Mutation(
        name="pages-instant-in-utc",
        mechanism="An instant is told in UTC, whatever its offset.",
        file="scheduler/dashboard/times.py",
        old='    return f"{value.astimezone(UTC):%Y-%m-%dT',
        new='    return f"{value:%Y-%m-%dT',
        red=[WORDS + "test_an_instant_of_another_offset_is_the_same_instant"],
    ),
    Mutation(
        name="admin-read-only",
        mechanism="What the services write is not changed by hand.",
        file="runners/admin.py",
        old="""def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
""",
        new="""def had_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
""",
        red=[ADMIN + "test_what_the_services_write_is_not_written_by_hand"],
    ),
    Mutation(
        name="admin-bounded-count",
        mechanism="A list of the admin is counted only to its bound.",
        file="runners/admin.py",
        old="self.object_list[:MOST_COUNTED].count()",
        new="self.object_list.count()",
        red=[ADMIN + "test_a_list_is_counted_only_to_its_bound"],
    ),
    Mutation(
        name="admin-queries",
        mechanism="A list of the admin costs as many queries with many rows as with few.",
        file="scheduler/admin/runs.py",
        old='    list_select_related = ("job", "holder")\n',
        new="",
        red=[ADMIN + "test_a_list_costs_as_many_queries_with_twelve_rows_as_with_two"],
    ),
    Mutation(
        name="admin-no-digest",
        mechanism="No page shows the digest of a key.",
        file="runners/admin.py",
        old='    fields = ("prefix", "client",',
        new='    fields = ("prefix", "digest", "client",',
        red=[CLIENTS + "test_no_page_shows_a_digest"],
    ),
    Mutation(
        name="admin-revoke-permission",
        mechanism="Keys are revoked only by who may change them.",
        file="runners/admin.py",
        old=', permissions=["revoke"])',
        new=")",
        red=[CLIENTS + "test_only_who_may_change_keys_revokes_them"],
    ),
    Mutation(
        name="admin-revoked-stays-revoked",
        mechanism="A key that is revoked already keeps its time and is not audited again.",
        file="runners/services/clients.py",
        old=".filter(pk__in=key_ids, revoked_at__isnull=True)",
        new=".filter(pk__in=key_ids)",
        red=[CLIENTS + "test_keys_are_revoked_for_good_and_audited"],
    ),
    Mutation(
        name="admin-same-again",
        mechanism="Saving a client as it is changes and audits nothing.",
        file="runners/services/clients.py",
        old="            if diff:\n",
        new="            if True:\n",
        red=[CLIENTS + "test_a_client_is_changed_but_its_tenant_is_not"],
    ),
    Mutation(
        name="admin-client-taken-meanwhile",
        mechanism="A client's name that somebody took meanwhile is a message, not a fault.",
        file="runners/admin.py",
        old="        except CroniqError as refused:  # somebody was faster",
        new="        except ZeroDivisionError as refused:  # somebody was faster",
        red=[CLIENTS + "test_a_name_that_somebody_took_meanwhile_is_a_message"],
    ),
    Mutation(
        name="now-failing-is-the-newest-that-ran",
        mechanism="A job fails whose newest run with a verdict did; skipped and cancelled ones decide nothing.",
        file="scheduler/queries/situation.py",
        old="ran = ended.exclude(verdict__in=[Run.Verdict.SKIPPED, Run.Verdict.CANCELLED])",
        new="ran = ended",
        red=["tests/scheduler/dashboard/test_now.py::test_a_job_fails_whose_newest_run_did"],
    ),
    Mutation(
        name="now-follows-what-happens",
        mechanism="The page is sent again when something on it changed.",
        file="scheduler/dashboard/now.py",
        old="    shown = found, hours, failures, abs(ahead) > MOST_APART\n",
        new="    shown = ()\n",
        red=[
            "tests/scheduler/dashboard/test_now.py::test_it_follows_what_happens_and_is_left_alone_while_nothing_does"
        ],
    ),
    Mutation(
        name="now-names-some-and-counts-all",
        mechanism="Of many of a kind some are named, and all are counted.",
        file="scheduler/queries/situation.py",
        old="return Some(found[:MOST_NAMED], len(found))",
        new="return Some(found[:MOST_NAMED], len(found[:MOST_NAMED]))",
        red=["tests/scheduler/dashboard/test_now.py::test_of_many_some_are_named_and_all_are_counted"],
    ),
    Mutation(
        name="now-shows-stale-and-not-dead-runners",
        mechanism="A runner that fell silent lately is trouble; one that is long gone is not.",
        edits=[
            Edit(
                "scheduler/queries/situation.py",
                'if status_of(row.last_poll_at, now) == "stale"',
                'if status_of(row.last_poll_at, now) != "online"',
            ),
            Edit(
                "scheduler/queries/situation.py",
                "rows_with_counts(now).filter(last_poll_at__gte=since)",
                "rows_with_counts(now)",
            ),
        ],
        red=["tests/scheduler/dashboard/test_now.py::test_runners_that_flap_or_fell_silent"],
    ),
]
