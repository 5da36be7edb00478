"""The only writers of this app's tables."""
