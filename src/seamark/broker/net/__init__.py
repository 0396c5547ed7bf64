"""From bytes to a handler and back: listener, connection, dispatch, answers."""
