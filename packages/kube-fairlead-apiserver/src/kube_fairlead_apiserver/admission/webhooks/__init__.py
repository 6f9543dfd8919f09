"""Admission webhooks: AdmissionReviews over HTTPS, mutating ones in order, validating ones at once.

`configuration` reads webhook configurations, `review` writes and reads AdmissionReviews, `caller` makes one call, and
the two plugins decide what its outcome means. The network is behind `sender.Sender`. Policies need no network and are
not here.
"""
