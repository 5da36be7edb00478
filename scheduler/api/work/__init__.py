"""`/v1/work/*` as plain ASGI, in front of Django: a waiting poll costs a future, not a thread."""
