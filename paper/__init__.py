"""Section 6 and Appendix C of the paper, made again: a client of operformer's public names, not part of the wheel."""
