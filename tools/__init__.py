"""Programs for authors and teachers of the course, which are not part of the installed package."""
