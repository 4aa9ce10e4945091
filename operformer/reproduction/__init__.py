"""Section 6 and Appendix C of the paper, made again from runs of this library."""
