"""How often a client's address has failed lately, for servers that make those wait who fail again and again.

Bounded: at most ``most`` addresses are known, and the one whose last failure is longest ago goes for a new one. The
addresses of one IPv6 network (/64) count as one, because a single client has all of them.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable

_MAPPED_IPV4 = "::ffff:"


class AddressFailures:
    """``clock`` gives seconds that never go back; an address without failures for ``forgotten_after`` starts anew."""

    def __init__(self, clock: Callable[[], float], *, forgotten_after: float, most: int = 1000) -> None:
        self._clock = clock
        self._forgotten_after = forgotten_after
        self._most = most
        # Address to the number of its failures and the time of the last one, the oldest time first.
        self._found: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def note(self, address: str) -> int:
        """Count a failure; returns how many there are now."""
        count = self.of(address)[0] + 1
        key = network_of(address)
        self._found[key] = (count, self._clock())
        self._found.move_to_end(key)
        if len(self._found) > self._most:
            self._found.popitem(last=False)
        return count

    def of(self, address: str) -> tuple[int, float]:
        """The number of failures, and how many seconds ago the last one was."""
        key = network_of(address)
        count, last = self._found.get(key, (0, 0.0))
        age = self._clock() - last
        if count and age > self._forgotten_after:
            del self._found[key]
            count = 0
        return count, age

    def forget(self, address: str) -> None:
        self._found.pop(network_of(address), None)


def network_of(address: str) -> str:
    """The address under which a client is known.

    >>> network_of("10.0.0.1"), network_of("::ffff:10.0.0.1"), network_of("2001:db8::1:2:3"), network_of("a name")
    ('10.0.0.1', '10.0.0.1', '2001:db8::/64', 'a name')
    """
    address = address.removeprefix(_MAPPED_IPV4)
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address, 64), strict=False))
    except ValueError:
        return address
