"""
The HTTP edge: Relay's REST surface on top of the engine.

`app.create_app` builds an application whose lifespan opens the server; everything else
translates. A request passes, from the outside in::

    Fence      ── nobody's fault but ours ─▶ 500 with an id, logged under it
    OwnHosts   ── local mode, somebody else's host name ─▶ 403
    RawPaths   ── the path as it was sent, one segment a name
    the route's parameters, in their order:
      caller   ── 401, 403; from here on a change that fails is audited
      body     ── 413, 415, 400, 422
    one use-case of the engine
    waiting    ── the client of a read has gone ─▶ the wait for an executor ends
    answers    ── a list or a payload, written in portions, sent in pieces
    problems   ── what was raised ─▶ a problem document

Invariants

- Every answer that is no success is a problem document; `problems` alone knows which
  error has which status.
- The permission of a route stands in its signature (`dependencies`), so does its shape.
- Units, names and absent values are translated in the route's file and nowhere else.
- Shapes are closed: what Relay does not know it refuses, `$schema` excepted.
- No answer, however long, stops the loop for more than a few milliseconds.
- A change that was begun goes on without its client, because its outcome is audited.

It holds no state and decides nothing about executors. When the database is away it says
503 and keeps answering `/healthz`.
"""
