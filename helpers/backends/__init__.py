"""Training runs on other machines."""
