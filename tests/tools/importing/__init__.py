"""Import: what lines become in stores of other kinds."""
