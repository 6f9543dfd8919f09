"""What the server does with objects: create, update, delete, from an object in hand to a durable write.

The steps that every write takes (defaults, admission, validation, field ownership, commit) are here, in their order,
any caller: a client over HTTP or a controller in the server. Nothing here knows HTTP.
"""
