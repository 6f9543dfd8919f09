"""ValidatingAdmissionPolicy: rules in CEL that are asked about writes, with parameters from other objects.

`compilation` reads policies and bindings, `parameters` finds what bindings refer to, `evaluation` asks one policy about
one write, and `plugin` acts on the answers. `type_check` warns of mistakes beforehand. Mutating policies are not
served.
"""
