"""The kinds of configuration keys, and how a user's mapping and keywords become field values.

Each function here makes a dataclass field that carries its own rule: how a value, perhaps a text, is read and what it
may be. Reading knows nothing of single keys; what keys mean together is in ``config_rules``, what other clients call
them in ``config_foreign``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from seamark.client.config.aliases import RENAMED, UNSUPPORTED
from seamark.errors import HIDDEN, ConfigError
from seamark.suggest import did_you_mean

Read = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True)
class KeyRule:
    """What is known of a key besides its name and default; ``kind`` is for documents."""

    kind: str
    doc: str
    read: Read
    is_secret: bool = False
    is_nullable: bool = False
    values: str = ""


def rule_of(config_class: type[Any], name: str) -> KeyRule:
    """The rule of a key, by its field name."""
    rule: KeyRule = next(f.metadata["rule"] for f in fields(config_class) if f.name == name)
    return rule


def _key(default: Any, rule: KeyRule) -> Any:
    return field(default=default, metadata={"rule": rule})


def integer(default: int, doc: str, least: int, most: int = 2**63 - 1) -> Any:
    def read(key: str, value: Any) -> int:
        number = value
        if isinstance(value, str):
            try:
                number = int(value.strip())
            except ValueError:
                raise ConfigError(key, value, "must be an integer") from None
        elif isinstance(value, float) and value.is_integer():
            number = int(value)
        if isinstance(number, bool) or not isinstance(number, int):
            raise ConfigError(key, value, f"must be an integer, not of type {type(value).__name__}")
        if not least <= number <= most:
            bounds = f"must be at least {least}" if most >= 2**31 - 1 else f"must be from {least} to {most}"
            raise ConfigError(key, value, bounds if number < least or most < 2**31 - 1 else f"must be at most {most}")
        return number

    limit = "" if most >= 2**31 - 1 else f"{most}"
    return _key(default, KeyRule("int", doc, read, values=f"{least}…{limit}"))


def boolean(default: bool, doc: str) -> Any:
    def read(key: str, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        raise ConfigError(key, value, "must be true or false")

    return _key(default, KeyRule("boolean", doc, read, values="true, false"))


def text(default: str, doc: str) -> Any:
    return _key(default, KeyRule("string", doc, _read_text))


def option(default: Any, doc: str, read: Read | None = None) -> Any:
    """A key that may be absent, read by a rule of its own if it has one."""
    return _key(default, KeyRule("string", doc, read or _read_anything, is_nullable=True))


def secret(doc: str) -> Any:
    """A key whose value never appears in a representation, a log or an error."""

    def read(key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise ConfigError(key, HIDDEN, f"must be a string, not of type {type(value).__name__}")
        return value

    return _key(None, KeyRule("password", doc, read, is_secret=True, is_nullable=True))


def choice(default: str, allowed: tuple[str, ...], doc: str) -> Any:
    """One of a few words; case does not matter where Kafka's does not."""
    by_folded = {word.lower(): word for word in allowed}

    def read(key: str, value: Any) -> str:
        meant = by_folded.get(_read_text(key, value).strip().lower())
        if meant is None:
            raise ConfigError(key, value, f"must be one of {', '.join(word or 'an empty string' for word in allowed)}")
        return meant

    return _key(default, KeyRule("string", doc, read, values=", ".join(allowed)))


def names(default: tuple[str, ...], doc: str) -> Any:
    """A list of words, as a list or as one text with commas."""

    def read(key: str, value: Any) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, Iterable):
            raise ConfigError(key, value, "must be a list of strings, or a comma-separated string")
        texts = [_read_text(key, part).strip() for part in parts]
        return tuple(part for part in texts if part)

    return _key(default, KeyRule("list", doc, read))


def objects(default: tuple[Any, ...], doc: str) -> Any:
    """A list of names, classes or instances; what they are is decided by the part that uses them."""

    def read(key: str, value: Any) -> tuple[Any, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        elif isinstance(value, type) or not isinstance(value, Iterable):
            value = [value]
        items = tuple(value)
        if not items:
            raise ConfigError(key, value, "must not be empty")
        return items

    return _key(default, KeyRule("list", doc, read))


def _read_text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(key, value, f"must be a string, not of type {type(value).__name__}")
    return value


def _read_anything(key: str, value: Any) -> Any:  # noqa: ARG001
    return value


def read_options(config_class: type[Any], config: Mapping[str, Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Field values for the keys that were given; a key given twice, unknown or with a bad value is a ConfigError."""
    rules: dict[str, KeyRule] = {f.name: f.metadata["rule"] for f in fields(config_class)}
    if not isinstance(config, Mapping):
        raise ConfigError("config", type(config).__name__, "must be a mapping of Kafka's configuration keys")
    values: dict[str, Any] = {}
    written: list[tuple[str, str, Any]] = []
    for key, value in config.items():
        if not isinstance(key, str):
            raise ConfigError(repr(key), HIDDEN, "a configuration key must be a string")
        written.append((key, key.replace(".", "_") if "_" not in key else "", value))
    written += [(name, name, value) for name, value in keywords.items()]
    for key, name, value in written:
        rule = rules.get(name)
        if rule is None:
            raise _unknown(key, rules)
        if name in values:
            raise ConfigError(name.replace("_", "."), _safe(rule, value), "is set twice")
        if value is None:
            if not rule.is_nullable:
                raise ConfigError(name.replace("_", "."), None, "must have a value")
            values[name] = None
        else:
            if isinstance(value, str) and not name.endswith("_location") and not _is_utf8(value):
                reason = "contains a character that cannot be encoded as UTF-8"
                raise ConfigError(name.replace("_", "."), _safe(rule, value), reason)
            values[name] = rule.read(name.replace("_", "."), value)
    return values


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown(key: str, rules: Mapping[str, KeyRule]) -> ConfigError:
    """The error for a key that this client does not have, with what the user probably wants.

    It does not have the value: a misspelt password is still a password.
    """
    dotted = key.replace("_", ".")
    if dotted.replace(".", "_") in rules:
        return ConfigError(key, HIDDEN, f"is not a configuration key; did you mean {dotted!r}?")
    if (renamed := RENAMED.get(dotted)) is not None and renamed.replace(".", "_") in rules:
        return ConfigError(key, HIDDEN, f"is another client's name for {renamed!r}: use that")
    if (reason := UNSUPPORTED.get(dotted)) is not None:
        return ConfigError(key, HIDDEN, reason)
    hint = did_you_mean(dotted, [name.replace("_", ".") for name in rules], 0.75)
    return ConfigError(key, HIDDEN, f"is not a configuration key of this client{hint}")


def _safe(rule: KeyRule, value: Any) -> Any:
    return HIDDEN if rule.is_secret else value


def shown(config: Any) -> dict[str, Any]:
    """Field values with secrets hidden; an absent secret shows as absent."""
    result = {}
    for f in fields(config):
        value = getattr(config, f.name)
        result[f.name] = value if value is None else _safe(f.metadata["rule"], value)
    return result
