"""APIs that brokers serve but the client does not call, a table of all requests, and the broker's side of headers."""
