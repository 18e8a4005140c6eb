"""What the console's doors agree on: the cookie that a signed-in browser brings."""

SESSION_COOKIE = "cairn_session"
