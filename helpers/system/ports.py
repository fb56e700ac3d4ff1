"""Ports on this machine, and connections to them."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack

PROXY_VARIABLES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy", "no_proxy")


def free_ports(count: int) -> list[int]:
    """Returns ports that were free on every interface a moment ago.

    TensorFlow's server accepts a number, not an open socket, so another program may still be
    faster. The supervisor then restarts the group on other ports.
    """
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with ExitStack() as held:  # all open at once, so that no number is repeated
        return [_bound(held.enter_context(socket.socket(family))) for _ in range(count)]


def without_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without proxies, which gRPC would use even for connections to this machine."""
    return {name: text for name, text in environ.items() if name.lower() not in PROXY_VARIABLES}


def _bound(unused: socket.socket) -> int:
    if unused.family == socket.AF_INET6:
        unused.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    unused.bind(("", 0))
    return unused.getsockname()[1]
