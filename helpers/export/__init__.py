"""Exports a training run of a cluster as a program that does not need this package.

`Cluster.export` calls `helpers.export.writer`. The export is a folder:

| file | contents |
|---|---|
| train.py | the reader's functions as source, the values that they use, and `run_task` |
| cluster_config.py | sets `TF_CONFIG` from the environment, Slurm's variables, or a Job's index |
| multi_worker_estimator.py | `train_and_evaluate` for an Estimator, with its checkpoints |
| parameter_servers.py | the server of a worker or parameter server |
| estimator_on_new_tensorflow.py, keras_3_multi_worker/ | the fixes that the program needs |
| lesson_functions/, datasets/, data.npz | functions and data of the course, and captured arrays |
| requirements.txt, launch.sh, README.md | packages, a script that starts all tasks, commands |

The target adds files: a batch script for Slurm, manifests for Kubernetes, or a program for Ray.
"""
