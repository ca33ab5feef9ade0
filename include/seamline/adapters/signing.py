"""Signatures by a key of the house: Ed25519 over the canonical JSON (`domain.audit.canonical_json`) of a document."""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from seamline.domain.audit import canonical_json
from seamline.domain.errors import ConfigError

# Where a document carries its own signature, which cannot be part of what is signed.
SIGNATURE = "signature"
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
    """By the private key in a PEM file without a password. ConfigError: there is none."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise ConfigError(f"{path} holds no private key that can be read: {type(exc).__name__}", hint=_MAKE) from exc
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
        if found.get("key") != _name_of(self._key):
            return f"it is signed by another key, {found.get('key')}"
        try:
            self._key.verify(base64.b64decode(str(found.get("value")), validate=True), _signed(document))
        except (InvalidSignature, binascii.Error):
            return "it was changed after it was signed"
        return ""


def verifier_of(path: Path) -> Verifier:
    """By the public key in a PEM file. ConfigError: there is none."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as exc:
        raise ConfigError(f"{path} holds no public key that can be read: {type(exc).__name__}", hint=_MAKE) from exc
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{path} holds a key of another kind than Ed25519", hint=_MAKE)
    return Verifier(key)


def _signed(document: Mapping[str, Any]) -> bytes:
    return canonical_json({name: value for name, value in document.items() if name != SIGNATURE}).encode()


def _name_of(key: Ed25519PublicKey) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of its DER: `openssl pkey -pubin -outform der | sha256sum`."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()[:16]
