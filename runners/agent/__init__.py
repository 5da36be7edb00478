"""The reference runner's inside: actions as processes. No Django, no database, only a server's URL and a key."""
