"""Times, the banner, keys, the palette, and what is said beside a button."""

from tests.mutations.record import Mutation

WORDS = "tests/scheduler/dashboard/test_words.py::"
ZONE = "tests/scheduler/dashboard/test_time_zone.py::"
FRAME = "tests/scheduler/dashboard/test_frame.py::"
PALETTE = "tests/scheduler/dashboard/test_palette.py::"
SAID = "tests/scheduler/dashboard/test_said.py::"
BROWSER = "tests/browser/test_interaction.py::"
TIMES, PAGES = "scheduler/dashboard/times.py", "scheduler/dashboard/pages.py"
FINDER, PAGE = "scheduler/queries/finder.py", "scheduler/dashboard/palette.py"
TOUR = BROWSER + "test_a_tour_by_keys_through_the_rows_the_pages_and_the_palette"
WAITS = BROWSER + "test_a_part_that_keeps_itself_up_to_date_waits_while_nobody_looks_and_says_when_nobody_answers"
NIGHT = BROWSER + "test_the_two_half_past_two_of_an_autumn_night_are_told_apart_and_time_moves"

RECORDS = [
    Mutation(
        name="times-say-their-offset",
        mechanism="An instant is said with its offset: the two 02:30 of an autumn night differ.",
        file=TIMES,
        old='    return f"{_local(value, zone):{_FULL}} {offset_name(value, zone)}"',
        new='    return f"{_local(value, zone):{_FULL}}"',
        red=[
            WORDS + "test_the_two_half_past_two_of_an_autumn_night_are_told_apart",
            ZONE + "test_two_runs_of_one_autumn_night_are_told_apart",
        ],
    ),
    Mutation(
        name="times-in-the-chosen-zone",
        mechanism="Pages say instants in the zone that their viewer has chosen, without a script too.",
        file=TIMES,
        old="        full_text(value, viewer),\n",
        new="        full_text(value),\n",
        red=[
            WORDS + "test_whoever_has_chosen_a_zone_has_it_without_script",
            ZONE + "test_what_one_has_chosen_is_on_all_pages_at_once",
        ],
    ),
    Mutation(
        name="times-of-a-zone-that-is-none",
        mechanism="A chosen zone that the zone data do not have any more breaks no page.",
        file=TIMES,
        old=" and preferences.time_zone in zone_names() else",
        new=" else",
        red=[WORDS + "test_a_chosen_zone_that_is_none_any_more_is_as_none_chosen"],
    ),
    Mutation(
        name="zone-checked-when-chosen",
        mechanism="What is no zone is not taken for one.",
        file="scheduler/services/preferences.py",
        old="    if time_zone:\n",
        new="    if False:\n",
        red=[ZONE + "test_what_is_no_zone_is_refused_with_the_nearest_and_nothing_changes"],
    ),
    Mutation(
        name="zone-chosen-is-audited-once",
        mechanism="A choice that changes nothing leaves no event.",
        file="scheduler/services/preferences.py",
        old="        if row.time_zone == time_zone:\n",
        new="        if False:\n",
        red=[ZONE + "test_a_choice_is_told_in_the_audit_once"],
    ),
    Mutation(
        name="preferences-cost-no-query",
        mechanism="Who is signed in is read together with how he likes to see pages.",
        file="croniq_site/sign_in.py",
        old='.select_related("preferences")',
        new="",
        red=[ZONE + "test_it_costs_a_page_no_query"],
    ),
    Mutation(
        name="preferences-go-with-their-user",
        mechanism="That nobody edits preferences in the admin keeps no user from being deleted there.",
        file="croniq_site/admin.py",
        old="lacking - {str(Preferences._meta.verbose_name)}",
        new="lacking",
        red=[ZONE + "test_a_user_is_deleted_with_what_he_has_chosen"],
    ),
    Mutation(
        name="banner-of-a-silent-worker",
        mechanism="Every page says that a worker gave no sign of life for 40 seconds.",
        file="scheduler/dashboard/frame.py",
        old="    return beat is not None and now - min(",
        new="    return beat is not None or now - min(",
        red=[FRAME + "test_every_page_says_which_worker_stands_still_while_it_answers"],
        realtime=[
            "tests/e2e/test_banner.py::test_a_materializer_that_is_killed_or_stopped_is_told_of_on_every_page_until_another_works"
        ],
    ),
    Mutation(
        name="banner-of-one-without-passes",
        mechanism="A worker that lives and finishes no pass stands still.",
        file="scheduler/dashboard/frame.py",
        old="min(beat, seen.ticks.get(kind, beat))",
        new="beat",
        red=[FRAME + "test_one_that_lives_and_finishes_no_pass_stands_still"],
    ),
    Mutation(
        name="banner-left-alone",
        mechanism="An open page is told only what it does not show yet: a screen reader is not told the same again.",
        file="scheduler/dashboard/viewer.py",
        old="if seen == banner.seen else",
        new="if False else",
        red=[FRAME + "test_an_open_page_asks_for_the_banner_and_is_left_alone_while_it_has_not_changed"],
    ),
    Mutation(
        name="windows-move",
        mechanism="The window of Next moves on in a tab that is left open.",
        file="templates/dashboard/next.html",
        old='{% block live %}{% include "_moves.html" %}{% endblock %}\n',
        new="",
        red=[FRAME + "test_a_window_moves_on_in_a_tab_that_is_left_open"],
    ),
    Mutation(
        name="palette-by-role",
        mechanism="The palette offers what does something to those alone who may do it.",
        file=PAGE,
        old="    if not may_act(request.user) or ",
        new="    if ",
        red=[PALETTE + "test_what_does_something_is_offered_to_whoever_may_and_leads_to_a_page_that_asks"],
    ),
    Mutation(
        name="palette-where-it-matters",
        mechanism="The palette offers to resume only what is paused.",
        file=PAGE,
        old="condition=_MATTERS.get(what)",
        new="condition=None",
        red=[PALETTE + "test_what_does_something_is_offered_to_whoever_may_and_leads_to_a_page_that_asks"],
    ),
    Mutation(
        name="palette-of-a-tenant",
        mechanism="Of another tenant's runs nothing is found, however exactly one names them.",
        file=FINDER,
        old="        runs = runs.filter(job__tenant=tenant)\n",
        new="        pass\n",
        red=[PALETTE + "test_a_tenant_finds_its_own_alone"],
    ),
    Mutation(
        name="palette-bounded",
        mechanism="However many runs begin like it, a few are read.",
        file=FINDER,
        old="    return tuple(runs[:MOST_OTHERS])",
        new="    return tuple(runs)",
        red=[PALETTE + "test_what_is_found_is_bounded_in_rows_and_queries"],
    ),
    Mutation(
        name="said-beside-the-button",
        mechanism="The page's script is told of a refusal in a sentence.",
        file=PAGES,
        old="        if is_of_script:\n",
        new="        if False:\n",
        red=[SAID + "test_a_refusal_is_a_sentence_beside_the_button"],
    ),
    Mutation(
        name="said-once",
        mechanism="What is refused leads nowhere, and is no message on the next page besides.",
        file=PAGES,
        old=" or request.htmx:\n            raise\n",
        new=":\n            raise\n",
        red=[SAID + "test_a_refusal_is_a_sentence_beside_the_button"],
    ),
    Mutation(
        name="said-whose-session-ended",
        mechanism="Whose session has ended is told so beside the button, and stays where he is.",
        file=PAGES,
        old='    if request.htmx and request.method == "POST":\n        return _beside',
        new="    if False:\n        return _beside",
        red=[SAID + "test_whose_session_ended_is_told_so_and_not_led_away"],
    ),
    Mutation(
        name="said-who-may-not",
        mechanism="Whoever may not do it is told so beside the button.",
        file=PAGES,
        old="        if not is_of_script:\n            raise\n",
        new="        raise\n",
        red=[SAID + "test_whoever_may_not_is_told_so_there"],
    ),
    Mutation(
        name="script-tells-half-past-two-apart",
        mechanism="Where a clock shows a time twice, the script says which of them.",
        file="static/croniq-time.js",
        old='const which = isTwice(ms) ? ` ${offsetName(ms)}` : "";',
        new='const which = "";',
        realtime=[NIGHT],
        database="postgresql",
    ),
    Mutation(
        name="keys-not-in-fields",
        mechanism="What one types into a field is text and no key.",
        file="static/croniq-keys.js",
        old="event.target.closest(CONTROL) || ",
        new="",
        realtime=[TOUR],
        database="postgresql",
    ),
    Mutation(
        name="live-parts-wait",
        mechanism="A list is not refreshed while something in it is ticked, and says so.",
        file="static/croniq-live.js",
        old='    if (part.querySelector("input[type=checkbox]:checked")) return "pausedTicked";\n',
        new="",
        realtime=[TOUR],
        database="postgresql",
    ),
    Mutation(
        name="script-says-what-was-refused",
        mechanism="A refusal is said on the page on which the button was pressed.",
        file="static/croniq-actions.js",
        old='refuseFields(form, (answer.headers.get("Croniq-Fields")',
        new='location.reload(form, (answer.headers.get("Croniq-Fields")',
        realtime=[BROWSER + "test_a_refusal_is_said_where_it_was_clicked_and_what_was_done_leads_on"],
        database="postgresql",
    ),
    Mutation(
        name="live-parts-wait-behind",
        mechanism="While its window is behind another, a page asks nothing, and says so.",
        file="static/croniq-live.js",
        old="if (document.hidden || isBehind) return",
        new="if (document.hidden) return",
        realtime=[WAITS],
        database="postgresql",
    ),
    Mutation(
        name="live-parts-say-when-nobody-answers",
        mechanism="A page that gets no answer says since when what it shows may be old.",
        file="static/croniq-live.js",
        old="failing = status === 403 ? words.said403 :",
        new='failing = status !== 403 ? "" :',
        realtime=[WAITS],
        database="postgresql",
    ),
]
