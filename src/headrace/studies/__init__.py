"""Studies: what was published on distributed deep RL, measured again here and shown side by side."""
