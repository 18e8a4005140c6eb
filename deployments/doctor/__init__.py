"""What `cairn doctor` looks at: this machine, the stack's folder, and what runs. It changes nothing."""
