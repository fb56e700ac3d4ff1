"""Validates the addresses in a `TF_CONFIG`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from helpers import labels
from helpers.errors import ConfigError
from helpers.i18n import _

SPARSE_JOBS = ("worker",)  # not ps, because TensorFlow places variables on all of them
HOST_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def check_addresses(cluster: Mapping[str, tuple[str, ...]]) -> None:
    """Raises ConfigError unless every address is valid and unique."""
    seen: dict[str, str] = {}
    for job, addresses in cluster.items():
        for index, address in enumerate(addresses):
            if address == "" and job in SPARSE_JOBS:
                continue
            task = f"{job} {index}"
            check_address(task, address)
            key = address.casefold()
            if key in seen:
                message = _(
                    "{first} and {second} in TF_CONFIG have the same address {address!r}. Two "
                    "processes cannot share a port: give each its own."
                )
                first, second = labels.task(seen[key]), labels.task(task)
                raise ConfigError(message.format(first=first, second=second, address=address))
            seen[key] = task


def check_address(owner: str, address: Any) -> None:
    """Raises ConfigError unless other processes could connect to the address of task `owner`."""
    if not isinstance(address, str) or ":" not in address:
        message = _(
            'The address of {task} in TF_CONFIG is {address!r:.60}; it must be "host:port".'
        )
        raise ConfigError(message.format(task=labels.task(owner), address=address))
    host, _colon, port = address.rpartition(":")
    if problem := _host_problem(host):
        message = _("The address of {task} in TF_CONFIG is {address!r:.60}; {problem}")
        raise ConfigError(message.format(task=labels.task(owner), address=address, problem=problem))
    if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
        message = _(
            "The address of {task} in TF_CONFIG is {address!r:.60}; its port {port!r:.20} must "
            "be a number from 1 to 65535."
        )
        raise ConfigError(message.format(task=labels.task(owner), address=address, port=port))


def _host_problem(host: str) -> str | None:
    """The reason why no other process could connect to this host, as the end of a sentence."""
    inner = host[1:-1] if host[:1] + host[-1:] == "[]" else host
    number = _ip_address(inner)
    if number and number.is_unspecified:
        message = _(
            "{host} means every interface of one machine, and other processes cannot connect "
            "to it. Write the name or the IP address of the machine."
        )
    elif number and number.version == 6 and inner == host:
        message = _("an IPv6 address needs brackets before the port. Write [{host}]:port.")
    elif number and (number.version == 6) == (inner != host):
        return None
    elif any(char in host for char in "${}<>%"):
        message = _(
            "its host {host!r:.40} looks like a variable that was not replaced. Write the name of "
            "the machine."
        )
    elif HOST_NAME.fullmatch(host) and not re.fullmatch(r"[\d.]*\.[\d.]*", host):
        return None
    else:
        message = _(
            'its host {host!r:.40} is not a host name. Write "host:port" without "http://" or '
            "spaces."
        )
    return message.format(host=host)


def _ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
