"""
Whatever a peer sends, Relay goes on.

Random input, found by Hypothesis and shrunk when something breaks. Without
`FUZZ_EXAMPLES` each test tries a few hundred inputs, the same in every run; with it, so
many and others each time::

    FUZZ_EXAMPLES=20000 make test TESTS=tests/fuzz
"""
