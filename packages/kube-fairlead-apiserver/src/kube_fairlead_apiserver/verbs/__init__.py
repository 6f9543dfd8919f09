"""The API verbs, a file each: from an HTTP request to an operation on storage, and from its outcome to a response.

Here belongs HTTP: query parameters, content types, status codes, output forms. What a write does to an object belongs
in `operations`.
"""
