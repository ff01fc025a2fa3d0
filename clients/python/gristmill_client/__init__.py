"""A client of a Gristmill server: pushes jobs, waits for their results, listens to events, and works jobs as a pull worker."""

from ._client import Client, End, NewJob, Pushed
from ._http import GristmillError
from ._worker import Job, Reject, Retry, Snooze

__all__ = ["Client", "End", "GristmillError", "Job", "NewJob", "Pushed", "Reject", "Retry", "Snooze"]
