"""The model itself: pure rules of what a broker may answer and deliver."""
