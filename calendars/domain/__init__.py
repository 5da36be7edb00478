"""When a calendar is open: pure rules, without Django, a database or a clock."""
