"""The exercises, a module for each lesson; `helpers.check` calls them."""
