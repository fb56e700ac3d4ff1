"""The lessons, by language, and the program that runs one of them."""
