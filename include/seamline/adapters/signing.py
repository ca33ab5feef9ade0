"""Signatures by a key of the house: Ed25519 over the canonical JSON (`domain.audit.canonical_json`) of a document."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from seamline.adapters.private_file import others_may_read
from seamline.domain.audit import canonical_json
from seamline.domain.errors import ConfigError
from seamline.domain.exact_json import object_of

# Where a document carries its own signature, which cannot be part of what is signed.
SIGNATURE = "signature"
_FIELDS = {"algorithm", "key", "value"}
_ALGORITHM = "ed25519"
_MAKE = "`openssl genpkey -algorithm ed25519` makes one, `openssl pkey -pubout` its public half"


@dataclass(frozen=True, slots=True)
class Signer:
    """Holds the private key; nothing shows it."""

    _key: Ed25519PrivateKey

    def signature(self, document: Mapping[str, Any]) -> dict[str, str]:
        """Of the document without its signature. The same document has the same one."""
        value = self._key.sign(_signed(document))
        return {
            "algorithm": _ALGORITHM,
            "key": _name_of(self._key.public_key()),
            "value": base64.b64encode(value).decode(),
        }


def signer_of(path: Path) -> Signer:
    """By the private key in a PEM file without a password. ConfigError: there is none, or others may read it."""
    try:
        is_open = others_may_read(path)
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise ConfigError(f"{path} holds no private key that can be read: {type(exc).__name__}", hint=_MAKE) from exc
    if is_open:
        raise ConfigError(f"the signing key {path} can be read by others", hint=f"chmod 600 {path}")
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} holds a key of another kind than Ed25519", hint=_MAKE)
    return Signer(key)


@dataclass(frozen=True, slots=True)
class Verifier:
    """Holds a public key."""

    _key: Ed25519PublicKey

    def fault(self, document: Mapping[str, Any]) -> str:
        """Why the signature that a document carries is not this key's for just this document; "" where it is."""
        found = document.get(SIGNATURE)
        if not isinstance(found, Mapping):
            return "it bears no signature"
        if found.keys() != _FIELDS or found["algorithm"] != _ALGORITHM:
            return f"its signature is none of {_ALGORITHM} with the fields {', '.join(sorted(_FIELDS))}"
        if found["key"] != _name_of(self._key):
            return f"it is signed by another key, {found['key']}"
        try:
            value = base64.b64decode(str(found["value"]), validate=True)
            self._key.verify(value, _signed(document))
        except (InvalidSignature, ValueError, RecursionError):
            return "it was changed after it was signed"
        # Base64 has several texts for the same bytes.
        return "" if base64.b64encode(value).decode() == found["value"] else "its signature was written otherwise"


def verifier_of(path: Path) -> Verifier:
    """By the public key in a PEM file. ConfigError: there is none."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as exc:
        raise ConfigError(f"{path} holds no public key that can be read: {type(exc).__name__}", hint=_MAKE) from exc
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{path} holds a key of another kind than Ed25519", hint=_MAKE)
    return Verifier(key)


def read_signed(text: str) -> Any:
    """The JSON in a file, where every reader takes it for the same values. ValueError: it has an object with a name
    twice, a number in a form that no document of ours has, or more parts within each other than can be read."""
    try:
        return json.loads(
            text, object_pairs_hook=object_of, parse_int=_whole, parse_float=_no_number, parse_constant=_no_number
        )
    except RecursionError:
        raise ValueError("its parts lie too deep within each other") from None


def _whole(text: str) -> int:
    if str(number := int(text)) != text:
        _no_number(text)
    return number


def _no_number(text: str) -> NoReturn:
    """Numbers with a fraction are texts in what is signed: 5 and 5.0 would have one canonical form."""
    raise ValueError(f"it has the number {text[:40]}; numbers with a fraction are texts")


def _signed(document: Mapping[str, Any]) -> bytes:
    return canonical_json({name: value for name, value in document.items() if name != SIGNATURE}).encode()


def _name_of(key: Ed25519PublicKey) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of its DER: `openssl pkey -pubin -outform der | sha256sum`."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()[:16]
