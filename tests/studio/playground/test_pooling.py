import numpy as np

from exactformer.studio.playground.panels import MOST, pooled


def test_small_matrices_are_drawn_as_they_are():
    matrix = np.arange(12.0).reshape(3, 4)
    assert pooled(matrix, MOST) is matrix


def test_of_a_large_matrix_the_extremes_stay_visible():
    matrix = np.zeros((1000, 3))
    matrix[17, 0], matrix[500, 1], matrix[999, 2] = 1, -2, 3
    small = pooled(matrix, most=10)
    assert small.shape == (10, 3)
    assert (small[0, 0], small[5, 1], small[9, 2]) == (1, -2, 3)
    assert np.count_nonzero(small) == 3
