"""CEL as admission uses it: which variables expressions see, and how a group of expressions is evaluated.

Webhooks' match conditions and policies share this. Nothing here decides about a write.
"""
