"""Lessons as files: where they stand, what is in them, how they are executed."""
