"""Who a client is (TLS, SASL) and what it may do (ACLs)."""
