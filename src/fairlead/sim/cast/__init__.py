"""Who is on the stage: each file starts one kind of process with the real component inside."""
