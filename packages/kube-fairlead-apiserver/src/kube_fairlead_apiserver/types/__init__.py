"""Data about Kubernetes' built-in kinds: their fields, protobuf numbers and names.

`hack/types` generates `builtin.json` from the Go types and the discovery documents of the Kubernetes version that it
names. The modules here read it, each part at its first use. Schemas, the resource table and the protobuf decoder all
use this one file. The rules of a kind (defaults, validation) never belong here: those are strategies.
"""
