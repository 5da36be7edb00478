"""Pure rules of the scheduler: no Django, no database, no clock."""
