"""Answers that last: watches, and requests that are passed on to a pod."""
