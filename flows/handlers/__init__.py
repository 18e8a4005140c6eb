"""What a task node can do. Declarations here are light; implementations load their libraries when first run."""
