"""A loopback HTTP server with a token, and checks of what it is sent."""
