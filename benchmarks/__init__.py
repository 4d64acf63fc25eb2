"""What Headrace must show: speed against its peers and limits, and time to a score."""
