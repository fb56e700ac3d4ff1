"""The data that the notebook and its workers send to each other."""
