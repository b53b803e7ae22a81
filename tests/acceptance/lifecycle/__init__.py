"""The real process from its start to its end: refused starts, signals, services, containers, certificates, backups."""
