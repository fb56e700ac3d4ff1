"""The tests of `helpers.compare`."""
