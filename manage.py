#!/usr/bin/env python3
"""Croniq's command line; `python3 manage.py quickstart` is where to begin."""

import os
import sys

# Any python3 may run this file, and many a `python` is a 2.7: up to here and in main() it keeps to what they all parse.
if sys.version_info < (3, 11):  # noqa: UP036 - this is where the others are told
    sys.exit(
        "Croniq needs Python 3.11 or newer; this is "
        + ".".join(str(part) for part in sys.version_info[:3])
        + ". Install a newer Python and run the command again with it, for example: python3.12 manage.py quickstart"
    )


def main():
    """Make sure that the dependencies are there, then hand over to Django."""
    from croniq_site.bootstrap import ensure_environment

    ensure_environment(sys.argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        settings.configured or settings.INSTALLED_APPS  # noqa: B018 - reads the settings file, which refuses nonsense
    except ImproperlyConfigured as error:
        sys.exit("Croniq cannot start: " + str(error))
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
