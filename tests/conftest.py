"""Settings of all tests."""

import signal

# A shell that runs jobs in the background has them ignore Ctrl-C, and so would every program that
# tests start in order to interrupt it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
