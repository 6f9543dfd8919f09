"""Reviews: kinds that are answered and never stored, such as SubjectAccessReview and TokenReview.

A review reads the request from its spec and writes the result into its status. The authorizer and the authenticator
decide.
"""
