"""The guard: what keeps a kernel that is wrong, after all that was checked, from reaching the model a second time."""
