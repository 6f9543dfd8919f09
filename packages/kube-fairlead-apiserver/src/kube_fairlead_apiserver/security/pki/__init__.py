"""Keys and certificates in the data folder. The only place that knows `cryptography`.

`authority` signs serving and client certificates, `signing_key` signs service account tokens. What is in the folder is
used, what is missing is made, what is broken is refused with a message that says what to do. All files have mode 0600.
"""
