"""Builds and runs MPICH's own test suite against an installed MPI."""
