"""The protocol between a node's agent and lifecycle drivers: messages, channels, and gRPC over a unix socket.

Here belongs everything that both sides must agree on: the content of messages (`messages`), their encoding
(`contracts`, compiled from `proto/`; `codec`), the calls of the agent (`channels`; `grpc_channel` and `memory_channel`
implement them) and the server of a driver (`server`). The transport of both is `base.rpc`. A driver is not trusted:
every call ends in a valid answer or in one of `errors`. The order of the calls belongs in `claimant`, the work of a
driver in `drivers`.
Before: `client`. After: `claimant`, which calls, and `drivers`, which serve.
"""
