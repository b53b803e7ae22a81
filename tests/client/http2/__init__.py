"""The client over HTTP/2: requests, their results, and the end of a connection."""
