"""Languages: whose a page is in, and what stays English."""

from __future__ import annotations

from tests.mutations.record import Mutation

LANGUAGE = "tests/texts/test_language.py::"

RECORDS = [
    Mutation(
        name="machines-are-answered-in-english",
        mechanism="What the API answers does not depend on Accept-Language.",
        file="croniq_site/languages.py",
        old="            if is_for_machines(request) and request.path != PAGE_OF_THE_API:",
        new="            if False:",
        red=[LANGUAGE + "test_a_machine_is_answered_the_same_whatever_it_likes_best"],
        quick=True,
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
]
