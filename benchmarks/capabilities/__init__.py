"""The capabilities of Estimator, each as a program that prints numbers. See `compatibility.py`."""
