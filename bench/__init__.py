"""
What Relay costs and how fast it is, measured beside what the machine can do at all.

`make bench` runs it. The parent starts every party as a process of its own: Relay as
`relay serve` does, a *fleet* of executors that speak the wire protocol and nothing
else, and for each figure a *floor*, the least that any program of this kind would cost:
a bare `websockets` server that pings or asks, a bare FastAPI route, a raw socket on the
sans-I/O layer, a commit. Figure and floor come from the same run on the same machine,
so that a slow day shows in both.

::

    parent ──commands──▶ fleet ══sockets══▶ relay serve | a floor
       └──── /proc, /metrics, /healthz, the SQLite file ────▶ ┘

`children` starts and asks processes, `fleet` and `member` are the executors,
`workflows` what they tell of workflows, `callers` the clients of REST, `floors` the
bare servers, `cases` the measurements, `report` the table and the JSON, `machine` what
it ran on.

It is a benchmark, not a test: nothing fails because a figure is high. The fleet shares
the machine's cores with what is measured, so storms are measured pessimistically.
"""
