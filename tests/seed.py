"""What tests draw is one and the same in each run of `make test` and of CI, and another each night.

A change is judged by the draws that main was judged by; those that nobody has seen yet are the night's.
LABKIT_TEST_SEED in the environment repeats a run.
"""

import os
import random

SEED = int(os.environ.get("LABKIT_TEST_SEED", random.SystemRandom().randrange(10**6)))
"""The seed of exercises' arguments, of the backend's data and of random histories."""
