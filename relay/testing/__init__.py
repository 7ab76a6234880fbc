"""
Doubles that Relay ships for its own tests and for those of its users.

They are working pieces with their own time and their own socket, not mocks: a
`FakeClock` that a test advances, and a scripted `FakeExecutor` that speaks the real
wire protocol. No test library is needed to import them.
"""
