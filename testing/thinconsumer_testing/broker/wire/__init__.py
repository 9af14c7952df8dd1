"""The APIs that brokers serve and this client does not call, all requests, and a broker's side of headers."""
