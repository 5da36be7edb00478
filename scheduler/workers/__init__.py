"""Units of work that a process repeats: `run_once(now)` each. The loop is in `process`."""
