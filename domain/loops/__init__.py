"""What the domain does without being asked: each module looks for work of its kind now and then."""
