"""Two patterns know what a page does not show: one of its bytes, which is fast, and one of its characters."""

from __future__ import annotations

from django.http import HttpResponse

from croniq_site.kernel.text import with_signs
from croniq_site.unseen import ShowUnseen


def test_each_character_that_has_a_sign_has_it_also_where_it_is_the_only_one():
    for code in (*range(0x0D), *range(0x0E, 0x3000), 0xFEFF, 0x1F600):  # a carriage return is an end of a line
        text = f"<p>{chr(code)}</p>"
        page = ShowUnseen(lambda request, text=text: HttpResponse(text))(None)
        assert page.content.decode() == with_signs(text), hex(code)
