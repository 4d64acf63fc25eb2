"""A live page about the runs of a folder, read from their directories and served to browsers."""
