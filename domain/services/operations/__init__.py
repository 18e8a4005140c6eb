"""What operators and administrators read and do beside decisions."""
