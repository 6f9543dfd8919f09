"""gRPC over HTTP/2, for every client and every server of the product; HTTP/2 itself is the `h2` library's.

Here belongs what both sides share (`errors`, `status`, `framing`, `wire`; for messages `protobuf`, `messages` and
`contract`), the client (`client`, `pipes`) and the server (`server`, `connection`, `calls`, `unixsocket`). A peer is
not trusted: what it sends fails one call or ends one connection, in bounded memory, and does no more. Only what our
protocols need is here: one request message, and one or several messages as the answer. Compression, client streams and
retries are not.
What a method means never belongs here: that is `driverapi`'s, the container runtime interface's, a cloud's.
"""
