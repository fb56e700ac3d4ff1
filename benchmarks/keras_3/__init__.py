"""What Keras 3 can do on several workers: each row of the table is a run of two, and of one."""
