"""The gate of the flat history: what a run writes and what a claim reads is the same after 200,000 finished runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.realtime
@pytest.mark.timeout(400)
def test_a_run_costs_the_same_after_a_long_history(database):
    """On a server of its own, which writes whole pages after a checkpoint as production does: bytes, not seconds."""
    if database != "postgresql":
        pytest.skip("WAL bytes and shared buffers are PostgreSQL's; SQLite's plans are in test_plans")
    ours = ("DATABASE_", "CRONIQ_TEST")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.wal", "--history", "200000", "--runs", "2000"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout.count("ok ") == 2
