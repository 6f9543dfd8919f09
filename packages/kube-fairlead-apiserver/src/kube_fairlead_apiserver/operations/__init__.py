"""The operations on objects: create, update, delete, from an object in memory to a durable write.

The steps that every write takes (defaults, admission, validation, field ownership, commit) are here, in their order,
for any caller: a client over HTTP or a controller in the server. Nothing here knows HTTP.
"""
