"""A live page about the runs of a folder or about a server, served to browsers."""
