"""Field ownership: server-side apply, and the tracking of every other write.

Read `fieldset` first: a set of fields is the plain JSON that `managedFields` holds on the wire, so nothing is parsed
or rebuilt on the way. `relations` says how the schema divides an object into fields; `extraction`, `comparison`,
`merge` and `validation` walk object and schema together; `managers` keeps the entries. `update_tracking`
serves create, update and the other patches, `server_side_apply` serves server-side apply. Nothing here knows requests,
storage, admission or defaults.
"""
