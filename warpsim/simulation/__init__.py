"""One point: a chip, a kernel and a launch, encoded for the engine, run, and read into the variables of a result."""
