"""Values that say where they came from."""

import numpy as np
import pytest

SIZES = {"b": 5, "t": 3, "c": 2, "x": 7, "y": 11, "z": 13, "n": 17}


@pytest.fixture
def numbered():
    """An array with the axes of a layout; every value is its own index, whatever the order of the axes."""

    def make(layout, **sizes):
        shape = {letter: sizes.get(letter, SIZES[letter]) for letter in layout.split()}
        place = {letter: 20**k for k, letter in enumerate("nzyxctb")}
        values = np.zeros(tuple(shape.values()))
        for axis, (letter, n) in enumerate(shape.items()):
            along = [1] * len(shape)
            along[axis] = n
            values += place[letter] * np.arange(n).reshape(along)
        return values

    return make
