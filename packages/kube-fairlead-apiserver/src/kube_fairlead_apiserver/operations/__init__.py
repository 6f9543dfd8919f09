"""What the server does with objects: create, update, delete, from an object in hand to a durable write.

The steps that every write takes (defaults, admission, validation, field ownership, commit) are here, in their order,
whoever asks: a client over HTTP or a controller inside the server. Nothing here knows HTTP.
"""
