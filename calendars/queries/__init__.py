"""What can be read about calendars."""
