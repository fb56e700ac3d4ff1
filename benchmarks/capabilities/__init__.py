"""What Estimator can do, each as a program that prints numbers; see `compatibility.py`."""
