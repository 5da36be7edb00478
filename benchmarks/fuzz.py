"""Every operation of the OpenAPI document is asked with made-up input, and every answer held against the document.

    python -m benchmarks.fuzz [--examples 20000] [--database sqlite|postgresql] [--seed N]

schemathesis against a real `manage.py serve`: the examples and bounds of the document, random bodies and parameters,
valid and not, and walks along its links (make, read, change, delete). No 5xx, no status and no shape that the document
does not know. Exits with 1 where an answer is another.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from benchmarks.bed import bed, machine

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
OPERATIONS = 50
"""Fewer than there are: with what the bounds of the document add, a run asks more often than it was told to."""
KEY = "croniq_" + "fuzz" * 10
# The key is declared by the environment: the API cannot revoke it, which the fuzzer would do within a minute.
ENVIRONMENT = {
    "CRONIQ_API_CLIENT_FUZZ_KEY": KEY,
    "CRONIQ_API_CLIENT_FUZZ_SCOPES": "admin",
    "CRONIQ_POLL_HOLD": "1s",
    "CRONIQ_RATE_WRONG_KEYS": "0",
    "CRONIQ_LOG_LEVEL": "ERROR",
}


@dataclass(frozen=True)
class Report:
    """``requests`` that were made; ``output`` is what schemathesis wrote."""

    good: bool
    requests: int
    operations: int
    output: str


def fuzz(address: str, key: str, per_operation: int, *, seed: int = 1, phases: str = "") -> Report:
    """Ask every operation of the server at ``address``, ``per_operation`` random times beside the bounds.

    ``phases`` is a list of coverage, fuzzing and stateful with commas; empty: all.
    """
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{address}/v1/openapi.yaml"),
        *("--header", f"Authorization: ApiKey {key}", "--checks", ",".join(CHECKS)),
        *("--max-examples", str(per_operation), "--seed", str(seed), "--continue-on-failure", "--no-shrink"),
        *("--exclude-path", "/ready"),  # its 503 is an answer like another, and says how busy the workers are
        *("--suppress-health-check", "all", "--request-timeout", "60", "--warnings", "off", "--no-color"),
        *(("--phases", phases) if phases else ()),
    ]
    with tempfile.TemporaryDirectory(prefix="croniq-fuzz-") as folder:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    requests, operations = (re.search(words, done.stdout) for words in (r"([\d,]+) generated", r"Tested: (\d+)"))
    if not requests or not operations:
        raise RuntimeError(done.stdout)
    number = int(requests[1].replace(",", ""))
    return Report(done.returncode == 0, number, int(operations[1]), done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--database", choices=["postgresql", "sqlite"], default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with bed(options.database) as made:
        made.environment |= ENVIRONMENT
        with made.running("manage.py", "materialize"), made.running("manage.py", "reap"), made.serve() as (_, address):
            print(machine())
            began = time.perf_counter()
            report = fuzz(address, KEY, options.examples // OPERATIONS, seed=options.seed)
            print(report.output)
            print(
                f"{report.requests:,} requests to {report.operations} operations in {time.perf_counter() - began:.0f} s"
            )
    sys.exit(0 if report.good else 1)


if __name__ == "__main__":
    main()
