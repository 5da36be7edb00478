"""Read-only questions, shared by the API and the pages."""
