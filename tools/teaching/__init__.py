"""Homework: releases exercises, and grades what comes back, each submission in a sandbox."""
