"""Every preset with many seeds, next to other libraries: runs, statistics, the page and the policies that are kept."""
