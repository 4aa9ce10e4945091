"""The commands of `operformer`, a file for each part of the work."""
