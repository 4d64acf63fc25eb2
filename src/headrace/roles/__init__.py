"""Roles: plain classes with one job each, which know the server but not each other."""
