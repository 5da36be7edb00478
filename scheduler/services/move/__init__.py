"""Move an installation from SQLite to PostgreSQL: `tables` what there is, `target` where it goes, `moving` the way.

The source is read in one snapshot and never changed before all of it is on the other side and proved so. Rows are
copied table by table in the order of their keys, a batch a transaction: so the target itself tells how far a move came
that was interrupted, however it was. Until it is finished no process of Croniq's starts on the target.
"""
