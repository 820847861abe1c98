"""Counters as Nsight Compute reads them, from counts that native code makes at each access."""
