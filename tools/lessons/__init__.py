"""Lessons as files: their locations, their contents, their execution."""
