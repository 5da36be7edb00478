"""What the bootstrap adds to a later start: `python3 manage.py …` against the installed environment called directly.

    python3 benchmarks/start.py [ROUNDS]

Both sides run in turn, so that other load on the machine meets both. Prints medians in milliseconds.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIDES = {
    "through the bootstrap": [getattr(sys, "_base_executable", sys.executable), "manage.py", "quickstart", "--help"],
    "environment directly": [str(ROOT / ".venv/bin/python"), "manage.py", "quickstart", "--help"],
}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    took: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side, argv in SIDES.items():
            begun = time.perf_counter()
            subprocess.run(argv, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
            took[side].append((time.perf_counter() - begun) * 1000)
    medians = {side: statistics.median(times) for side, times in took.items()}
    for side, median in medians.items():
        print(f"{side:<24} {median:7.0f} ms (of {rounds}: {min(took[side]):.0f} to {max(took[side]):.0f})")  # noqa: T201
    print(f"the bootstrap adds       {medians['through the bootstrap'] - medians['environment directly']:7.0f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
