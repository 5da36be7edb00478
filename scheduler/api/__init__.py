"""The HTTP API of jobs, runs and runners."""
