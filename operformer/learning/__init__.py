"""From pairs of functions to a trained operator and its errors."""
