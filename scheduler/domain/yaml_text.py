"""YAML read with the line of everything in it, and written so that the same is read back. Pure.

Plain words have the meaning of YAML 1.2: ``NO`` is Norway, ``17:00`` a time of day and ``on`` a word. Nothing is made
of tags, and what anchors repeat counts as often as it is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

MOST_BYTES = 1024 * 1024
MOST_DEPTH = 40
MOST_NODES = 200_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,29})", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:[0-9]{1,64}\.[0-9]{0,64}|\.[0-9]{1,64}|[0-9]{1,64}(?=e))(?:e[-+]?[0-9]{1,4})?", re.ASCII | re.IGNORECASE
)
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False} | {
    ".nan": float("nan"),
    ".inf": float("inf"),
    "+.inf": float("inf"),
    "-.inf": float("-inf"),
}
_STRING_TAG = "tag:yaml.org,2002:str"


class Mark(NamedTuple):
    """A place in a file, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something that is wrong with the file, or (``is_warning``) may not be meant. ``path`` names what it is about."""

    mark: Mark
    path: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place. ``value`` is a text, number, flag or None, a list of nodes, or a dict of nodes by text,
    of which ``keys`` has the places. ``size`` counts the nodes in it, ``height`` its levels."""

    mark: Mark
    value: Any
    keys: Mapping[str, Mark] = field(default_factory=dict)
    size: int = 1
    height: int = 1

    def plain(self) -> Any:
        """The value without its places."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def place_of(self, path: str) -> Mark:
        """The place of what a dotted path names (``rules.0.weekdays``), as deep as it leads."""
        node, mark = self, self.mark
        for part in path.split("."):
            if isinstance(node.value, dict) and part in node.value:
                mark, node = node.keys[part], node.value[part]
            elif isinstance(node.value, list) and part.isdigit() and int(part) < len(node.value):
                node = node.value[int(part)]
                mark = node.mark
            else:
                break
        return mark


class Unreadable(Exception):
    """The text is no YAML document that could be looked at further."""

    def __init__(self, mark: Mark, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(mark, "", message)


def read_yaml(data: bytes) -> tuple[Node, list[Problem]]:
    """Return the one document of the file, and what is wrong with it that does not keep one from reading on (a key that
    is there twice: the first counts). Raises `Unreadable`. Time and memory are bounded by the size of ``data``."""
    text = _text(data)
    reader = _Reader(text)
    try:
        return reader.document(), reader.problems
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        # What ends too early is wrong in its last line, not in the one behind it.
        last = max(1, len(text.splitlines()))
        mark = Mark(min(at.line + 1, last), at.column + 1) if at is not None else Mark(1, 1)
        words = ", ".join(text for text in (error.context, error.problem) if text)
        raise Unreadable(mark, f"This is no YAML: {words}.") from error
    except yaml.YAMLError as error:
        raise Unreadable(Mark(1, 1), f"This is no YAML: {' '.join(str(error).split())}.") from error


def _text(data: bytes) -> str:
    if len(data) > MOST_BYTES:
        raise Unreadable(Mark(1, 1), f"The file has more than {MOST_BYTES} bytes.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(Mark(data[: error.start].count(b"\n") + 1, 1), "The file is no UTF-8 text.") from error
    if bad := _UNREADABLE.search(text):
        before = text[: bad.start()]
        mark = Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise Unreadable(mark, f"The character U+{ord(bad[0]):04X} has no place in a YAML file.")
    return text


def scalar(text: str) -> Any:
    """What a plain word means."""
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


class _Reader:
    """Builds nodes of the events of the parser, which does not look at what they mean."""

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, Loader=_LOADER)
        self._anchors: dict[str, Node] = {}
        self.problems: list[Problem] = []

    def document(self) -> Node:
        next(self._events)  # the stream begins
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            raise Unreadable(Mark(1, 1), "The file is empty.")
        node = self._node(next(self._events), 1)
        next(self._events)  # the document ends
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise Unreadable(_mark(event), "The file has a second document; it is one.")
        return node

    def _node(self, event: yaml.Event, depth: int) -> Node:
        mark = _mark(event)
        if depth > MOST_DEPTH:
            raise Unreadable(mark, f"This is nested deeper than {MOST_DEPTH} levels.")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise Unreadable(mark, f"No anchor &{event.anchor} ends before this.")
            return self._anchors[event.anchor]
        if isinstance(event, yaml.ScalarEvent):
            node = Node(mark, self._scalar(event, mark))
        elif isinstance(event, yaml.SequenceStartEvent):
            self._refuse_tag(event, mark)
            items = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                items.append(self._node(item, depth + 1))
            node = _measured(mark, items, {}, items)
        else:
            self._refuse_tag(event, mark)
            node = self._mapping(mark, depth)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _mapping(self, mark: Mark, depth: int) -> Node:
        values: dict[str, Node] = {}
        keys: dict[str, Mark] = {}
        merged: list[Node] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            at = _mark(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise Unreadable(at, "A key is a text.")
            value = self._node(next(self._events), depth + 1)
            if event.value == "<<" and event.implicit[0]:
                merged += value.value if isinstance(value.value, list) else [value]
            elif event.value in values:
                first = keys[event.value]
                message = f"The key {event.value[:64]!r} is here a second time; the first is in line {first.line}."
                self.problems.append(Problem(at, event.value[:64], message))
            else:
                values[event.value], keys[event.value] = value, at
        for other in merged:
            if not isinstance(other.value, dict):
                raise Unreadable(other.mark, "What << takes over is a mapping.")
            for name, value in other.value.items():
                if name not in values:
                    values[name], keys[name] = value, other.keys[name]
        return _measured(mark, values, keys, list(values.values()))

    def _scalar(self, event: yaml.ScalarEvent, mark: Mark) -> Any:
        if event.tag not in (None, "!", _STRING_TAG):
            raise Unreadable(mark, f"The tag {event.tag!r} is not understood here.")
        return scalar(event.value) if event.implicit[0] and event.tag is None else event.value

    @staticmethod
    def _refuse_tag(event: yaml.CollectionStartEvent, mark: Mark) -> None:
        if event.tag not in (None, "!"):
            raise Unreadable(mark, f"The tag {event.tag!r} is not understood here.")


def _measured(mark: Mark, value: Any, keys: Mapping[str, Mark], children: list[Node]) -> Node:
    """The node; refused where what its anchors repeat makes it more than anybody wrote by hand."""
    size = 1 + sum(child.size for child in children)
    height = 1 + max((child.height for child in children), default=0)
    if size > MOST_NODES or height > MOST_DEPTH:
        raise Unreadable(mark, f"With what it repeats this is more than {MOST_NODES} values or {MOST_DEPTH} levels.")
    return Node(mark, value, keys, size, height)


def _mark(event: yaml.Event) -> Mark:
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


# Lines as one would write them: nothing at their ends that cannot be seen, nothing before the first.
_BLOCK = re.compile(r"(?![ \n])[\x20-\x7e\xa0-\u2027\u202a-\ud7ff\n]*\n[\x20-\x7e\xa0-\u2027\u202a-\ud7ff\n]*")


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if not isinstance(scalar(text), str):
        style = "'"
    elif _BLOCK.fullmatch(text) and not re.search(r" (\n|$)|\n\n$", text):
        style = "|"
    elif not text.isprintable():
        style = '"'
    return dumper.represent_scalar(_STRING_TAG, text, style=style)


_Dumper.add_representer(str, _represent_text)


def write_yaml(value: Any) -> str:
    """The value (dicts by text, lists, texts, numbers, flags, None) as YAML that `read_yaml` reads back the same."""
    return yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=float("inf")
    )
