"""Tables, one module per projection, and the queries that read them."""
