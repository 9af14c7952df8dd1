"""All that lies between requests and bytes, without sockets: connections, routes to brokers, metadata."""
