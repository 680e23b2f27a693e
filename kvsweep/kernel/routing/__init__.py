"""Which instance gets a request, and what the router sees and remembers."""
