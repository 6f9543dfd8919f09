"""Field ownership: server-side apply, and the tracking of every other write.

Read `fieldset` first: a set of fields is the plain JSON of `managedFields`, so the server neither parses nor builds it
for a write. `relations` divides an object into fields by its schema. `extraction`, `comparison`, `merge` and
`validation` walk an object and its schema together. `managers` reads and writes the entries. `update_tracking` serves
create, update and the other patches; `server_side_apply` serves server-side apply. Nothing here knows requests,
storage, admission or defaults.
"""
