"""Studies: published results on distributed deep RL, reproduced here and shown side by side."""
