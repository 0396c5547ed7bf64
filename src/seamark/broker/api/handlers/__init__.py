"""One module per API; ``seamark.broker.net.dispatch`` finds them by listing this package and says what each defines."""
