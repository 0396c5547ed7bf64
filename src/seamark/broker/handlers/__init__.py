"""One module per API; ``seamark.broker.dispatch`` finds them by listing this package and says what each defines."""
