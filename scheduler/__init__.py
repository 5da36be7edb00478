"""Jobs, triggers, runs and everything that happens to a run."""
