"""The exercises, a module for each lesson; `helpers.course.check` calls them."""
