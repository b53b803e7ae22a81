"""The ordered key-value port with its adapters, and every encoding that is persisted."""
