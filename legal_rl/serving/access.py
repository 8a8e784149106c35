"""Who may ask how much: API keys hashed at rest, a rate and a concurrency per key, one bound for everybody.

    gate = Gate(LimitSettings(keys_file="keys.yaml"))
    async with gate.admit(authorization="Bearer lrl-…", address="10.0.0.7") as caller: ...

A keys file is written by `legal-rl serve key NAME --file keys.yaml`; it is read again when it changes.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import limits
import limits.aio.storage
import limits.aio.strategies
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from legal_rl.errors import ConfigError
from legal_rl.serving.events import AnswerError
from legal_rl.serving.settings import LimitSettings

KEY_PREFIX = "lrl-"


class Caller(BaseModel):
    """One key's owner with its limits; None = the configuration's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=100)
    sha256: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    """Of the key; keys are 256 random bits, so a plain hash is enough and a look-up costs nothing."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    concurrency: int | None = Field(default=None, ge=1)


class _KeysFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    keys: list[Caller] = Field(default_factory=list)


def read_keys(path: Path) -> dict[str, Caller]:
    """Hash -> caller.

    Raises:
        ConfigError: the file is missing or damaged; names file and field.
    """
    try:
        found = _KeysFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: the keys file cannot be read ({' '.join(str(error).split())[:200]})") from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path}: {place}: {first['msg']}") from None
    return {caller.sha256: caller for caller in found.keys if caller.sha256}


def add_key(path: Path, name: str, requests_per_minute: int | None = None, concurrency: int | None = None) -> str:
    """Make a key, add its hash to the file, return the key: it is shown this once and kept nowhere."""
    known = list(read_keys(path).values()) if path.exists() else []
    if any(caller.name == name for caller in known):
        raise ConfigError(f"{path}: there is a key named {name!r} already; take its entry out first")
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    new = Caller(name=name, sha256=key_hash(key), requests_per_minute=requests_per_minute, concurrency=concurrency)
    rows = [caller.model_dump(exclude_none=True) for caller in [*known, new]]
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(yaml.safe_dump({"keys": rows}, allow_unicode=True, sort_keys=False), encoding="utf-8")
    temporary.chmod(0o600)
    os.replace(temporary, path)
    return key


def key_hash(key: str) -> str:
    """SHA-256 as hex."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


class Gate:
    """Admits questions. Counts are of this replica.

    Raises (from `admit`):
        AnswerError: 401 without a known key; 429 over a limit, with the reason as its code.
    """

    def __init__(self, settings: LimitSettings) -> None:
        self.settings = settings
        self._limiter = limits.aio.strategies.MovingWindowRateLimiter(limits.aio.storage.MemoryStorage())
        self._working: Counter[str] = Counter()
        self._path = Path(settings.keys_file).expanduser() if settings.keys_file else None
        self._stamp: tuple[int, int] | None = None
        self._keys: dict[str, Caller] = {}
        if self._path:
            self._refresh(self._path)
        self.in_flight = 0
        self.draining = False

    def caller(self, authorization: str, address: str) -> Caller:
        """Whose question this is; without a keys file, every address is a caller of its own."""
        if self._path is None:
            return Caller(name=f"address {address or 'unknown'}")
        self._refresh(self._path)
        scheme, _, key = authorization.partition(" ")
        found = self._keys.get(key_hash(key.strip())) if scheme.lower() == "bearer" else None
        if found is None:
            raise AnswerError("invalid_api_key", "a valid API key is needed (Authorization: Bearer …)", 401)
        return found

    @asynccontextmanager
    async def admit(self, authorization: str, address: str) -> AsyncIterator[Caller]:
        """A place for one question, given back at the end of the block."""
        caller = self.caller(authorization, address)
        s = self.settings
        if self.draining:
            raise AnswerError("draining", "the service is stopping", 503)
        if self.in_flight >= s.max_in_flight:
            raise AnswerError("busy", f"{self.in_flight} questions are in work", 429)
        allowed = caller.concurrency or s.concurrency
        if self._working[caller.name] >= allowed:
            raise AnswerError("too_many_at_once", f"at most {allowed} questions at once for this key", 429)
        rate = limits.RateLimitItemPerMinute(caller.requests_per_minute or s.requests_per_minute)
        self.in_flight += 1
        self._working[caller.name] += 1
        try:
            if not await self._limiter.hit(rate, caller.name):
                raise AnswerError("rate_limited", f"at most {rate.amount} questions a minute for this key", 429)
            yield caller
        finally:
            self.in_flight -= 1
            self._working[caller.name] -= 1
            if not self._working[caller.name]:
                del self._working[caller.name]

    def _refresh(self, path: Path) -> None:
        """Read the file when it has changed; a damaged new version keeps the old keys, a missing one keeps none."""
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
        except OSError:
            if self._stamp is None:
                raise ConfigError(f"{path}: no such keys file; make one with legal-rl serve key NAME") from None
            self._keys, self._stamp = {}, (0, 0)
            return
        if stamp == self._stamp:
            return
        try:
            self._keys = read_keys(path)
        except ConfigError:
            if self._stamp is None:
                raise
        self._stamp = stamp
