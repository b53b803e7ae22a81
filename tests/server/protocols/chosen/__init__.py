"""What both protocols do alike, and what they do to each other."""
