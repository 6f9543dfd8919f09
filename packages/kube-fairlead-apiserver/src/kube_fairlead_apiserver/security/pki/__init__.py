"""Keys and certificates in the data folder. The only place that knows `cryptography`.

`authority` signs serving and client certificates, `signing_key` signs service account tokens. Existing files are used,
missing files are created, damaged files are rejected with a message that says what to do. All files have mode 0600.
"""
