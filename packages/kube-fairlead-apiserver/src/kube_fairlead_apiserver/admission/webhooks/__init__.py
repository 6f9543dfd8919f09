"""Admission webhooks: AdmissionReviews over HTTPS, mutating ones in order, validating ones at once.

`hooks` reads configurations, `review` writes and reads AdmissionReviews, `calling` makes one call, and the two plugins
decide what its outcome means. The network is behind `sender.Sender`. Policies, which need no network, are not here.
"""
