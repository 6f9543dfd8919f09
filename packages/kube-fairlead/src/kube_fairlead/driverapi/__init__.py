"""The protocol between a node's agent and lifecycle drivers: messages, channels, and gRPC over a unix socket.

Here belongs everything that both sides must agree on: what is said (`messages`), how it is spelt on the wire
(`contracts`, compiled from `proto/`; `codec`), how one side calls (`channel`; `grpc` and `memory` are its variants)
and how the other serves (`server`); the transport of both is `base.rpc`. A driver is not trusted: whatever it sends, a
call ends in an answer or in one of `errors`. What is called when never belongs here: that is the agent's; nor what a
driver does.
Before: `client`. After: `agent`, which calls, and `drivers`, which serve.
"""
