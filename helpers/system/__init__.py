"""Access to the operating system and to the installed packages."""
