"""What `/metrics` tells. docs/metrics.md has every name."""
