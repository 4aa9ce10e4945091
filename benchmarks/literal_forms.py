"""The literal forms that the tests compare with, for benchmarks that do so, too. It prints nothing by itself."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from written_out import as_literal, as_literal_afno, as_literal_fno, literal_attention

__all__ = ["as_literal", "as_literal_afno", "as_literal_fno", "literal_attention"]
