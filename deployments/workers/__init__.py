"""Workers: what takes flow runs from a pool and runs them, in its own process or through a zygote's forks."""
