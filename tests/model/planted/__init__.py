"""Bugs that are planted to show that the model finds them."""
