"""What to do about nodes, routes and load balancers. Pure: objects and answers in, steps to take out.

One module per controller. Each checks `ownership` before anything else, so that no step it gives out concerns a node
that is not Owned. Nothing here waits, reads a clock or calls the cloud; the controllers do.
"""
