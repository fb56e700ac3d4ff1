"""The English of the course: rules that a program can check, and counts beside TensorFlow's."""
