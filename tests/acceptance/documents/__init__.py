"""What README and the examples say, run as it stands."""
