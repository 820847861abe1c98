"""What watches a launch: metrics (counters of performance) and checks. Observers never change a run."""
