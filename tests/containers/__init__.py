"""The image and the objects for Kubernetes: what their files state, and, in `soak_image`, how they run."""
