"""Programs for those who make and teach the course; nothing of it is installed."""
