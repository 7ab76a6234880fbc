"""
`make demo`: a real executor dies in the middle of its work, and Relay has it finished.

Starts Relay and two DBOS executors, kills the one that works, and tells what happens
while it happens. Ends with status 0 only if the workflow succeeded on the other
executor and no finished step ran twice.
"""
