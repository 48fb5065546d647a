"""What the command `labkit` does: one module for each of `lab | run | doctor | stop | export | bench`."""
