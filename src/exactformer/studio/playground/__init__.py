"""Try the constructions: requests in, JSON out, computed in worker processes with limits.

frames       messages over a pipe: JSON with its length before it
worker       what runs in a worker process
workers      the pool: one request a worker, limits on time, memory and waiting
asking       requests from the words of an address
jobs         what a worker can be asked for, by name
cells        the same for runs of experiments
refusals     what a page says instead of an answer, and the remedy it offers
panels       a matrix as something to draw and to read: names, values, exact entries
polynomial   a polynomial to a transformer: the request, its blocks, matrices, counts and certificate
traces       what happens inside at one point, and the surface round it
walk         the same in sentences made of that point's numbers
scripts      the same in Python, to take home
sequences    the journey of a sequence through quantiser, contextual mapping and values
programs     a program to a transformer: the request, its circuit, one input's way through, and examples
couplings    kernels, their singular values, and what a head of m dimensions loses
"""
