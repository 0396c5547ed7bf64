"""For tests of people who use Seamark: pytest fixtures with a real broker behind them."""
