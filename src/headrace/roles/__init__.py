"""Roles: plain classes, each with one job, that know the server and not each other."""
