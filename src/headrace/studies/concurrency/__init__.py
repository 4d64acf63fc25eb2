"""Workers that act and learn: the speed-up of many over one."""
