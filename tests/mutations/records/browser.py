"""What only a browser shows: scripts that meet, contrast, the mark of the focus; and what it has to fetch."""

from tests.mutations.record import Mutation

PAGES = "tests/browser/test_pages.py::test_a_page_shuts_nobody_out"
STORIES = "tests/browser/test_stories.py::"
COMPRESSION = "tests/site/test_compression.py::"
SUPPORT = "tests/bootstrap/test_support.py::"

RECORDS = [
    Mutation(
        name="browser-preview-follows-typing",
        mechanism="The preview of a schedule asks with what stands in its fields, while one types.",
        file="templates/dashboard/_trigger_form.html",
        old='hx-include="closest fieldset, #job_key"',
        new='hx-include="this, #job_key"',
        realtime=[STORIES + "test_a_job_with_a_calendar_is_made_previewed_and_seen_to_fire"],
        database="postgresql",
    ),
    Mutation(
        name="browser-log-is-nobody-elses",
        mechanism="What a log says is not in an attribute by which another script knows its times.",
        file="templates/dashboard/_log.html",
        old=' data-say-silent="',
        new=' data-away="',
        realtime=[STORIES + "test_a_log_arrives_while_it_is_written"],
        database="postgresql",
    ),
    Mutation(
        name="browser-past-days-can-be-read",
        mechanism="Days that are over are paler, and still to be read by whoever sees little contrast.",
        file="static/croniq-plan.css",
        old=".month .past { background: var(--page); }",
        new=".month .past { opacity: 0.65; }",
        realtime=[PAGES + "[calendar]"],
        database="postgresql",
    ),
    Mutation(
        name="browser-focus-shows",
        mechanism="Whatever is reached by Tab shows that it is, also on pages with drawings.",
        file="static/croniq-work.css",
        old=".day svg a:focus-visible { outline: none; }",
        new=".day a:focus-visible { outline: none; }",
        realtime=[PAGES + "[overlap]"],
        database="postgresql",
    ),
    Mutation(
        name="browser-texts-travel-compressed",
        mechanism="Pages and their files travel compressed: a start page stays below a hundred kilobytes.",
        file="croniq_site/settings.py",
        old='    "croniq_site.compression.CompressPages",\n',
        new="",
        red=[COMPRESSION + "test_pages_and_their_files_travel_compressed_and_are_the_same"],
        realtime=["tests/browser/test_weight.py::test_the_start_pages_fetch_at_most_a_hundred_kilobytes"],
        database="postgresql",
    ),
    Mutation(
        name="browser-machines-are-not-compressed",
        mechanism="What machines ask for is sent as it is.",
        file="croniq_site/compression.py",
        old="kind not in COMPRESSED or response",
        new="response",
        red=[COMPRESSION + "test_pages_and_their_files_travel_compressed_and_are_the_same"],
    ),
    Mutation(
        name="browser-a-compressed-file-is-known-again",
        mechanism="A file that a browser has is not sent again though it travelled compressed.",
        file="croniq_site/compression.py",
        old='            del response.headers["ETag"]\n',
        new="            pass\n",
        red=[COMPRESSION + "test_a_file_that_a_browser_has_is_not_sent_again"],
    ),
    Mutation(
        name="browser-absence-is-said",
        mechanism="Where there is no browser, the end of a run of all tests says that a browser’s did not run.",
        file="tests/support/suite.py",
        old='    if "realtime" in tiers and (lack := browser.missing()):',
        new="    if False and (lack := browser.missing()):",
        red=[SUPPORT + "test_a_run_without_a_browser_says_so_at_its_end"],
    ),
    Mutation(
        name="browser-made-up-attempts-keep-their-order",
        mechanism="An attempt that seed_demo makes up begins after its run was due and ends before the next one.",
        file="scheduler/services/seed_runs.py",
        old="began = run.scheduled_for + share * (attempt - 0.5)",
        new="began = run.claimed_at - timedelta(seconds=5)",
        red=["tests/scheduler/test_seed_demo.py::test_it_makes_what_was_asked_for_as_if_it_had_happened"],
    ),
]
