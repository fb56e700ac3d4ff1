"""Manifests for Kubeflow's training operator."""
