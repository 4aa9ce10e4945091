"""How an operator is trained: the loop, batches, optimisers, schedules, checkpoints, processes, watching."""
