"""ValidatingAdmissionPolicy: CEL rules for writes, with parameters from other objects.

`compilation` reads policies and bindings, `parameters` finds the objects that bindings refer to, `evaluation` evaluates
one policy for one write, and `plugin` acts on the results. `type_check` creates the warnings of the status. Mutating
policies are not served.
"""
