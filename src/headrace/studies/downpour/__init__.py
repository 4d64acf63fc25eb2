"""Distributed deep Q-learning (Ong, Chavez, Hong 2015): workers that send gradients to a parameter server."""
