"""Whether somebody looks at what a cell shows, so that it may answer; what is stored does not."""

import os

from IPython import get_ipython


def somebody_watches() -> bool:
    """Whether this is a notebook opened in a Jupyter server; LABKIT_LIVE=0 or 1 overrules."""
    asked = os.environ.get("LABKIT_LIVE")
    return asked == "1" if asked else "JPY_SESSION_NAME" in os.environ and get_ipython() is not None
