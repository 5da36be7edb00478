"""Languages: whose a page is in, and what stays English."""

from __future__ import annotations

from tests.mutations.record import Mutation

LANGUAGE = "tests/texts/test_language.py::"
CATALOGUE = "tests/texts/test_catalogue.py::"

RECORDS = [
    Mutation(
        name="machines-are-answered-in-english",
        mechanism="What the API answers does not depend on Accept-Language.",
        file="croniq_site/languages.py",
        old="            if is_for_machines(request) and request.path != PAGE_OF_THE_API:",
        new="            if False:",
        red=[LANGUAGE + "test_a_machine_is_answered_the_same_whatever_it_likes_best"],
    ),
    Mutation(
        name="caches-keep-pages-by-language",
        mechanism="A page that was kept for one language is not given to who has chosen another.",
        file="croniq_site/languages.py",
        old='            patch_vary_headers(response, ["Cookie"])\n',
        new="",
        red=[LANGUAGE + "test_what_is_kept_for_one_language_is_not_given_to_another"],
    ),
    Mutation(
        name="a-language-ends-with-its-request",
        mechanism="The thread that drew a German page answers the next request without any language.",
        file="croniq_site/languages.py",
        old="        with translation.override(settings.LANGUAGE_CODE):",
        new="        if True:",
        red=[LANGUAGE + "test_the_next_request_of_a_thread_has_nobodys_language"],
    ),
    Mutation(
        name="coordinates-have-a-point",
        mechanism="Numbers of drawings are written as SVG reads them, in every language.",
        file="croniq_site/formats/de/formats.py",
        old='DECIMAL_SEPARATOR = "."',
        new='DECIMAL_SEPARATOR = ","',
        red=[LANGUAGE + "test_numbers_in_drawings_have_a_point_in_every_language"],
    ),
    Mutation(
        name="refusals-are-read-in-german",
        mechanism="What a service refuses is read in the language of the page.",
        file="scheduler/dashboard/sentences.py",
        old="    return _said(language, english)",
        new="    return english",
        red=[CATALOGUE + "test_a_sentence_of_a_service_is_read_in_german"],
    ),
    Mutation(
        name="a-sentence-is-told-by-its-own-text",
        mechanism="Of two sentences that fit the one with more text of its own is meant.",
        file="scheduler/dashboard/sentences.py",
        old="        key=lambda item: -sum(map(len, item[1][::2])),",
        new="        key=lambda item: sum(map(len, item[1][::2])),",
        red=[CATALOGUE + "test_a_sentence_is_told_by_most_of_its_own_text"],
    ),
    Mutation(
        name="a-text-without-translation-is-told",
        mechanism="A text of the source that no catalogue has fails the check.",
        file="croniq_site/management/commands/makemessages.py",
        old="                if stale:",
        new="                if False:",
        database="sqlite",
        red=[CATALOGUE + "test_a_text_that_is_not_in_the_catalogue_is_told_and_nothing_is_written"],
    ),
    Mutation(
        name="no-page-shows-a-text-that-nobody-can-translate",
        mechanism="Each text of a page is one that can be translated.",
        file="scheduler/dashboard/words.py",
        old="    return str(SOURCES.get(managed_by, managed_by))",
        new="    return {'file': 'jobs file'}.get(managed_by, managed_by)",
        database="sqlite",
        red=["tests/texts/test_unmarked.py::test_no_page_shows_a_text_that_nobody_could_translate"],
    ),
]
