"""The dictionary of terms: orthonormal polynomials of the columns and their products."""
