"""Gradients on their way: what applies them to parameters, in this process, in shared memory or in a server."""
