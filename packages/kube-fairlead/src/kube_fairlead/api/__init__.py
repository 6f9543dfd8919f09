"""What exists: the Kubernetes kinds Fairlead speaks of, and the rules of their wire form.

Here live the typed kinds (one module per group and version), their JSON encoding, names, selectors, quantities and
times as Kubernetes spells them, validation into field errors, the tree of API errors, and the CRD manifests that are
generated from the kinds. Everything is a pure function over plain values: no I/O, no clock, no decision about what
should happen next. Before: `base`. After: `lifecycle`, which decides over these kinds, and `client`, which sends them.
"""
