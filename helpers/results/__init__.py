"""The results of a training run, during it and after it."""
