"""The exercises, with one module per lesson. `helpers.course.check` calls them."""
