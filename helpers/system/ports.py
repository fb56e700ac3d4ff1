"""Ports on this machine, and the way to them."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack

PROXY_VARIABLES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy", "no_proxy")


def free_ports(count: int) -> list[int]:
    """Ports that were free on every interface a moment ago.

    TensorFlow's server takes a number, not an open socket, so another program may still be
    faster; the supervisor then starts the group again on other ports.
    """
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with ExitStack() as held:  # all at once, so that no number comes twice
        return [_bound(held.enter_context(socket.socket(family))) for _ in range(count)]


def without_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without proxies: gRPC would send even connections to this machine there."""
    return {name: text for name, text in environ.items() if name.lower() not in PROXY_VARIABLES}


def _bound(unused: socket.socket) -> int:
    if unused.family == socket.AF_INET6:
        unused.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    unused.bind(("", 0))
    return unused.getsockname()[1]
