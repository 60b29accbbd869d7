"""Finds the first host in Slurm's lists of hosts, such as `rack[0-1]_blade[00-11,14],login2`."""

# A list has expressions, separated by commas or white space. An expression is text with any number
# of brackets. A bracket has numbers and ranges. If the first number of a range has leading zeros,
# all numbers of the range have the width of that number. A box such as `000x133`, for the nodes of
# a torus, has a range for each digit: 0 to 1, 0 to 3 and 0 to 3. The digits are in base 36.

from __future__ import annotations

import re

from fastdist.core.errors import RendezvousError

_SEPARATORS = ", \t\r\n"
_NUMBERS = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_BOX = re.compile(r"([0-9A-Z]+)x([0-9A-Z]+)")


def expand_first_host(node_list: str, variable: str = "SLURM_JOB_NODELIST") -> str:
    """Return the first host of a Slurm list; the whole list is checked.

    Raises  RendezvousError naming the variable, the error and its position
    """
    try:
        hosts = _first_hosts(node_list)
        if not hosts:
            raise ValueError("it names no host")
    except ValueError as error:
        raise RendezvousError(
            f"{variable} is {node_list!r}: {error}; expected a list of hosts, such as "
            "node[07-09,12],gpu3"
        ) from None
    return hosts[0]


def _first_hosts(text: str) -> list[str]:
    """Return the first host of each expression."""
    hosts, host, at = [], "", 0
    while at < len(text):
        letter = text[at]
        if letter == "[":
            end = text.find("]", at)
            if end < 0:
                raise ValueError(f"the bracket at character {at + 1} is not closed")
            host += _first_number(text[at + 1 : end])
            at = end + 1
            continue
        if letter == "]":
            raise ValueError(f"the bracket at character {at + 1} was not opened")
        if letter not in _SEPARATORS:
            host += letter
        elif host:
            hosts.append(host)
            host = ""
        at += 1
    return [*hosts, host] if host else hosts


def _first_number(ranges: str) -> str:
    """Return the first number in a bracket, written as in a host's name."""
    for one in ranges.split(","):
        numbers, box = _NUMBERS.fullmatch(one), _BOX.fullmatch(one)
        if numbers:
            low, high = numbers[1], numbers[2] or numbers[1]
            is_empty = int(low) > int(high)
        elif box and len(box[1]) == len(box[2]):
            low, high = box[1], box[2]
            is_empty = any(int(one, 36) > int(other, 36) for one, other in zip(low, high))
        else:
            raise ValueError(
                f"[{ranges}] holds {one!r}, which is not a number or a range of numbers"
            )
        if is_empty:
            raise ValueError(f"[{ranges}] holds the range {one}, which ends before it begins")
    return re.split("[,x-]", ranges, maxsplit=1)[0]
