"""Where else than on this machine a training can run."""
