"""
Every operation that executors answer, against real executors of every SDK.

`repertoire` holds one check an operation; what a check says of an SDK is a cell of the
table in `docs/compatibility.md`. A run fails when a cell is worse than it stands there;
`make compatibility` writes the table anew.
"""
