"""What a process needs of the operating system, and of what is installed."""
