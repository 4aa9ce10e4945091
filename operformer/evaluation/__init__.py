"""How good an operator is and how far to trust it: errors, spectra, jumps, rollouts, certificate, conformal bands."""
