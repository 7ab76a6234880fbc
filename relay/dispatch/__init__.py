"""
Asking executors: who can be asked, whom to ask first, when to ask the next.

A `Peer` is one connected executor, `Peers` the index of them; the hub provides both.
The `Dispatcher` asks *any* executor of an application and moves on to the next when
one is lost or silent, until somebody answers or the time is spent. Whether it may
move on is the asker's to say (`Repeat`), and so is whom it may ask (`suits`).

What it does not do: it keeps no state about executors (the connection knows whether
its executor is responsive), it queues nothing while nobody is connected
(`NoExecutorError`, at once unless somebody is just arriving), and it decides nothing
about recovery. A request that must reach one certain executor is asked of that `Peer`
itself.
"""

from relay.dispatch.dispatcher import Dispatcher, Repeat
from relay.dispatch.peers import Peer, Peers

__all__ = ["Dispatcher", "Peer", "Peers", "Repeat"]
