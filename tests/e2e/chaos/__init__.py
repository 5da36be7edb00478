"""Everything is killed at random while ten thousand runs are made: the parts of `tests/e2e/test_chaos.py`."""
