"""A CA of a test's own, and certificates that it signs, as PEM files."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key. Of a server's `hosts` are the names and addresses that it is good for."""

    certificate: Path
    key: Path


class Authority:
    """`folder` is its own; the files in it are readable by their owner alone."""

    def __init__(self, folder: Path, *, name: str = "test CA") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(self._name, self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def server(self, *hosts: str) -> Pair:
        return self._signed(f"server-{hosts[0]}", ExtendedKeyUsageOID.SERVER_AUTH, _hosts(hosts))

    def client(self, login: str) -> Pair:
        """`login` is its common name, by which PostgreSQL's `clientcert=verify-full` knows it."""
        return self._signed(login, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def pkcs8(self, pair: Pair) -> bytes:
        """The key as Java reads it."""
        key = load_pem_private_key(pair.key.read_bytes(), None)
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def _signed(self, name: str, usage: x509.ObjectIdentifier, hosts: x509.SubjectAlternativeName | None) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(_named(name), self._name, key.public_key())
        made = made.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts is not None:
            made = made.add_extension(hosts, critical=False)
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        pair.key.touch(mode=0o600)
        # Not PKCS#8, which Java takes alone: whoever hands it over to Java has to convert it.
        pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
        return pair


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )


def _hosts(hosts: tuple[str, ...]) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(names)
