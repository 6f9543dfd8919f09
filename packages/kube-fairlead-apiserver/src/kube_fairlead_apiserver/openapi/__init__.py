"""OpenAPI documents of the served resources.

One v3 document per group and version, and one v2 document of everything, are built from the catalog at their first
request. `paths` has the operations, `components` the schemas; both describe only what this server does.
"""
