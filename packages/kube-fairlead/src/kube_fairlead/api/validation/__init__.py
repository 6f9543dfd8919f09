"""What Kubernetes and the proposals forbid, as field errors.

Validators are pure and return every problem they find, in Kubernetes' words, not just the first. Those of metadata take
plain JSON, because the API server has it for kinds that no type names; those of our own kinds take the typed object.
What a caller may do is decided by authorization, and what should happen next by `lifecycle`; neither is here.
"""
