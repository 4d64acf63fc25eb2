"""Workers that act and learn: how much sooner many of them are done than one."""
