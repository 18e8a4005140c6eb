"""Stories on whole stacks. A package, so that pytest ends the stack that they share with the last of them."""
