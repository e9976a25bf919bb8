"""The parts of bench/run, one file a mechanism. Python's standard library only."""
