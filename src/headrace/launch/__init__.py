"""Where a program's roles run: in processes of this machine, on a cluster, or in simulated time."""
