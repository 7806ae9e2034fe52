"""Try the constructions: requests in, JSON out, computed in worker processes with limits.

frames       messages over a pipe: JSON with its length before it
worker       what runs in a worker process
workers      the pool: one request a worker, limits on time, memory and waiting
asking       requests from the words of an address
jobs         what a worker can be asked for, by name
panels       a matrix as something to draw and to read: names, values, exact entries
polynomial   a polynomial to a transformer: the request, read within limits
descriptions its blocks, matrices, counts and certificate
traces       what happens inside at one point, and the surface round it
scripts      the same in Python, to take home
sequences    the journey of a sequence through quantiser, contextual mapping and values
kernels      couplings by name, by formula, or drawn
programs     a program to a transformer: the request, its circuit, and one input's way through
program_examples  programs of the library as text
couplings    their singular values, and what a head of m dimensions loses
"""
