"""The clouds that come along: an inventory file, Amazon EC2, Hetzner Cloud, and one in memory for tests.

Each is a plug-in like any other: it implements `kube_fairlead.cloud.provider`, is named by an entry point and
imported only when it is chosen. A vendor's library is an optional extra. Nothing here knows of nodes' ownership or of
the API server; and a provider never answers for an id that it could not have given.
"""
