"""Mutation records: for every mechanism, the edit that removes it and the tests that must then be red.

`python -m tests.mutations` proves each: it copies the working tree, applies the edit, runs the whole fast tier (and the
realtime tests that the record names) on SQLite and on PostgreSQL, and asks whether the named tests are red.
A mechanism without a record is a mechanism whose loss nobody would notice.

How to write one: `docs/mutations.md`. Records live in `tests/mutations/records/<area>.py`, each exporting `RECORDS`.
"""
