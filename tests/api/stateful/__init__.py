"""
Whatever clients ask for, in whatever order: no fault, and nothing undocumented.

Schemathesis makes requests from the documents that Relay serves, and follows links from
an answer to the next request. Without `FUZZ_EXAMPLES` a run is small and the same every
time; with it, larger and another one each time::

    FUZZ_EXAMPLES=2000 make test TESTS=tests/api/stateful
"""
