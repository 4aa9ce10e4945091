"""What was learned, for people: tables, figures, one page."""
