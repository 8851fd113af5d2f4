"""Logs that go on: steps are appended, and running counts released at any of them."""
