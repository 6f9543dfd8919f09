"""The strategies of the built-in kinds, a file per family. `by_resource` maps each resource to its strategy."""
