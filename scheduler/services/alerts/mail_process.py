"""Sends one mail, in a process of its own: it can be ended, however slowly a mail server answers (the patience of a
socket begins again with each byte).

Reads a JSON object from its standard input: ``server`` (as CRONIQ_SMTP), ``patience`` (seconds for each answer),
``from``, ``to``, ``id``, ``date``, ``subject``, ``text``. Exits with 0 if the server took it, else says in one line
why. Knows no Django and no database.
"""

from __future__ import annotations

import json
import smtplib
import ssl
import sys
from contextlib import suppress
from email.message import EmailMessage
from typing import Any


def failure() -> str | None:
    """Do what is asked; why it was not done, None if it was."""
    said = json.load(sys.stdin)
    mail = EmailMessage()
    for name in ("From", "To", "Date", "Subject"):
        mail[name] = said[name.lower()]
    mail["Message-ID"] = said["id"]
    mail.set_content(said["text"])
    try:
        _send(mail, said["server"], said["patience"])
    except OSError as error:
        # What the server said may quote what it was told, and so a password.
        code = f" {error.smtp_code}" if isinstance(error, smtplib.SMTPResponseException) else ""
        return f"the mail was not taken ({type(error).__name__}{code})"
    return None


def _send(mail: EmailMessage, server: dict[str, Any], patience: float) -> None:
    where, tls = {"host": server["host"], "port": server["port"], "timeout": patience}, ssl.create_default_context()
    connection = smtplib.SMTP_SSL(**where, context=tls) if server["use_ssl"] else smtplib.SMTP(**where)
    if server["use_tls"]:
        connection.starttls(context=tls)
    if server["username"]:
        connection.login(server["username"], server["password"])
    connection.send_message(mail)
    # It is taken, whatever becomes of the farewell: whoever waited for its answer would send it once more.
    with suppress(OSError):
        connection.putcmd("quit")


if __name__ == "__main__":
    why = failure()
    sys.stdout.write(f"{why}\n" if why else "")
    sys.exit(1 if why else 0)
