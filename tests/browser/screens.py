"""`python -m tests.browser.screens`: pictures of the pages, each wide and narrow, light and dark.

    python -m tests.browser.screens --to /tmp/screens                             # all pages, the demo of quickstart
    python -m tests.browser.screens --to /tmp/screens --jobs 200 --runs 100000    # … of a busy installation
    python -m tests.browser.screens --jobs 200 --runs 100000 --chosen             # those of docs/screens

On SQLite, or on the PostgreSQL that DATABASE_URL names.
"""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Set Django up, whose URL configuration is the list of pages, and take the pictures."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    django.setup()
    from tests.browser.shots import main as take

    return take()


if __name__ == "__main__":
    sys.exit(main())
