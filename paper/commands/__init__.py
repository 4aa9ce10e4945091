"""One file for each group of the paper's commands."""
