"""`python -m helpers.worker`: see `helpers.worker.main`."""

from __future__ import annotations

import os
import sys

from helpers.worker.main import main

code = main()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)  # TensorFlow's threads may wait for peers that have already exited
