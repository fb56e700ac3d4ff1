"""Training runs on other machines than this one."""
