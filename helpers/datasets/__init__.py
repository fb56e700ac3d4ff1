"""The bundled data sets, as TensorFlow Datasets prepared them, and the program that makes them."""
