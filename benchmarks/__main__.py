"""``make bench``: every benchmark, one table each."""

from benchmarks import compiling, learning

compiling.run()
learning.main()
