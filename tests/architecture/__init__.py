"""Tests about the code itself: its directions, its names, its size, its completeness."""
