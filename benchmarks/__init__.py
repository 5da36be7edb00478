"""Measurements. Each is one command and prints its figures; docs/benchmarks.md keeps them with the machine."""
