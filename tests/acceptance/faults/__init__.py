"""
What the house does when networks, processes and databases fail under it.

Everything here is real: Relay as a process, executors of real SDKs, PostgreSQL. What
fails is done to them from outside, by a proxy, a signal or a stop of the server. Each
test says what has to happen and, as important, what must not: nobody dies who lives,
nothing is ordered that need not be, and no step runs twice that need not.

A fault of 40 or 60 s lasts as long here, because SDKs and drivers have clocks of their
own; every other span is scaled down by settings. The docstrings say how long a test
takes.
"""
