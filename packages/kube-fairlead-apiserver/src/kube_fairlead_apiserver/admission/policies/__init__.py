"""ValidatingAdmissionPolicy: CEL rules for writes, with parameters from other objects.

`compilation` reads policies and bindings, `parameters` finds what bindings refer to, `evaluation` evaluates one policy
for one write, and `plugin` acts on the results. `type_check` makes the warnings of the status. Mutating policies are
not served.
"""
