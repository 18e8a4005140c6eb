"""What every service uses: who a caller is, logs, metrics, connections. Knows no service."""
