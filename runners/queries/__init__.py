"""Read-only questions about clients and runners."""
