"""One module an area, each exporting `RECORDS: list[Mutation]` (see docs/mutations.md)."""
