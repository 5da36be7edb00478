"""`python -m tests.clients.on_django "django>=6"`: the stories of the Django tasks on another Django than the lock's.

A virtual environment outside of the work tree gets that Django and the client with what it needs, from the package
index; the server stays what it is. Not a part of the suite, which installs nothing (docs/testing.md).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

STORIES = "tests/clients/test_django_tasks.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("django", nargs="?", default="django>=6", help="a requirement; default: %(default)s")
    parser.add_argument("--python", default=sys.executable, help="Django 6 needs 3.12")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="croniq-django-") as name:
        subprocess.run([options.python, "-m", "venv", name], check=True)
        python = Path(name, "bin/python")
        backport = "[backport]" if options.django.startswith(("django<6", "django==5", "django~=5")) else ""
        client = ROOT / "clients/django-tasks"
        subprocess.run([python, "-m", "pip", "install", "-q", f"{client}{backport}", options.django], check=True)
        versions = "import sys, django; print('Django', django.__version__, 'on Python', sys.version.split()[0])"
        subprocess.run([python, "-c", versions], check=True)
        command = [sys.executable, str(ROOT / "manage.py"), "test", "--all", "--database", "postgresql", STORIES]
        return subprocess.run(command, cwd=ROOT, env={**os.environ, "CRONIQ_TASKS_PYTHON": str(python)}).returncode


if __name__ == "__main__":
    raise SystemExit(main())
