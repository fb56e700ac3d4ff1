"""Homework: releases exercises, and grades each submission in a sandbox."""
