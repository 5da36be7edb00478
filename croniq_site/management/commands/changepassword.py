"""`manage.py changepassword`, as Django has it, and the way in for whoever is locked out: audited, and the name that is
refused for wrong passwords may sign in again."""

from __future__ import annotations

import getpass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import NotFound
from croniq_site.kernel.suggestions import did_you_mean
from runners.services.audit import Actor
from runners.services.people import set_password

ACTOR = Actor("system", "changepassword")
TRIES = 3


class Command(changepassword.Command):
    help = (
        "Set a user's password, which is asked for twice. It ends all of that user's sessions, and a name that is "
        "refused for wrong passwords may sign in again at once."
    )

    def handle(self, *args: Any, **options: Any) -> str:
        users = get_user_model()._default_manager
        name = options["username"] or getpass.getuser()
        user = users.filter(username=name).first()
        if user is None:
            like = did_you_mean(name, set(users.values_list("username", flat=True)))
            raise CommandError(f"There is no user named {name!r}.{like}")
        self.stdout.write(f"A new password for {name!r}:")
        password = self._asked(user)
        try:
            set_password(user.pk, password, DatabaseClock().now(), actor=ACTOR)
        except NotFound as gone:  # while it was typed
            raise CommandError(gone.message) from None
        return f"The password of {name!r} is changed, and all sessions with the old one are ended."

    def _asked(self, user: AbstractBaseUser) -> str:
        for _ in range(TRIES):
            password = self._get_pass()
            if self._get_pass("Password (again): ") != password:
                self.stderr.write("That was not the same twice.")
                continue
            try:
                validate_password(password, user)
            except ValidationError as error:
                self.stderr.write("\n".join(error.messages))
            else:
                return password
        raise CommandError(f"Nothing is changed after {TRIES} tries.")
