"""What is wrong with a cluster for Fairlead, and how to fix it.

Here belongs reading what the checks need from the API server (`collector`), the facts as plain data (`facts`), and
the checks, each a pure function over the facts (`checks`). A new check is one function in the list of `checks`. Nothing
here writes to the cluster, and what happens to nodes and events is decided elsewhere.
Before: the components, whose objects are read. After: the command line, which prints the findings.
"""
