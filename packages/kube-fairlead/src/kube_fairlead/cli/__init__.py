"""The command line: one file per command, loaded only when that command runs.

A command parses its flags, builds a component or an operation from the layers below, runs it and prints its result. A
failure becomes one sentence and an exit code. What the component does never belongs here.
Before: a user, a systemd unit or a manifest. After: the component that the command starts.

    main, commands   find the command and run it
    failures         from an exception to a sentence and an exit code
    flag_values      checks of flag values
    shared_flags     flags that several commands have
    manager_flags    flags of leader election, health and metrics
    nodes            what drain, uncordon and maintain share
    text_tables      tables, ages and counts; `status_text` and `history_text` use them

Every other module is the command of its name.
"""
