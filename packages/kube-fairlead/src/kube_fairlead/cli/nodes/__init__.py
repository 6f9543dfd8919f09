"""What the commands that act on nodes share: drain, uncordon, maintain, and the drain driver's flags.

Here belong their flags, the lines that they print, and the command that `maintain` runs. What they do to nodes belongs
in `kube_fairlead.operations`.

    node_flags           the flags of kubectl drain, and the selection of nodes
    console              lines for a log, a live view for a terminal
    progress_printer     the progress of an operation, as lines
    maintenance_command  the work of `maintain`: a command, or a prompt at the terminal
"""
