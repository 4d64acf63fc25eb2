"""Around simulated runs: costs measured on this machine, and predictions for machines of other sizes."""
