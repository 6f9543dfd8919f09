"""Request budgets per user: which request runs now, which one waits, which one is rejected.

Here belong the decisions (`queue_set` for what requests hold, `fair_queue` for the time of the event loop; both pure),
the code that carries them out (`filter`, `step_scheduler`) and the metrics (`metrics`). Before: authentication and
impersonation, which identify the user. After: authorization and the verb.
"""
