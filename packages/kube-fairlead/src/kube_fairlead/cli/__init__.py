"""The command line: one file per command, loaded only when that command runs.

Here belongs what turns words into a call and a failure into one sentence and an exit code. A command reads its flags,
builds the component from the layers below and runs it; what the component does never belongs here.
Before: a user, a unit file or a manifest. After: the component that the command starts.
"""
