"""Reading YAML as kube-apiserver reads it, also, from sources that may be hostile.

`scalars` says what a piece of text stands for (YAML 1.1 without base 60 and without dates); `parser` builds the
document from the parser's events, without recursion and within limits on depth, values and aliases. Every component
that reads YAML reads it here: request bodies, kubeconfigs, configuration files. `emitter` is the way back.
"""
