"""OpenAPI: what the server serves, written down for clients that ask before they act.

One v3 document per group and version, and one v2 document of everything, are built from the catalog when they are first
asked for. `paths` knows the operations, `components` the schemas; both say only what this server does.
"""
