"""The stack's own certificates: a private authority, and one certificate for what it opens to other hosts.

Keys and certificates lie in one folder, readable by their owner only. Whoever holds the authority's key can pose as the
stack to its worker hosts: it leaves this folder never; its certificate is what other hosts are given.
"""

import ipaddress
import os
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS, SERVER_DAYS = 3650, 397
RENEWED_WITHIN = timedelta(days=30)
SKEW = timedelta(hours=1)  # other hosts' clocks may be behind
LONGEST_COMMON_NAME = 64


@dataclass(frozen=True)
class Certificates:
    """The files of one stack's authority and server."""

    folder: Path

    @property
    def authority(self) -> Path:
        """What other hosts trust."""
        return self.folder / "ca.pem"

    @property
    def server(self) -> Path:
        """The server's certificate, with its authority's behind it."""
        return self.folder / "server.pem"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"

    @property
    def _authority_key(self) -> Path:
        return self.folder / "ca.key"

    def ensure(self, names: Sequence[str], now: datetime | None = None) -> bool:
        """Make what is missing, and anew what ends soon or bears other names. Whether anything was made."""
        moment = now or datetime.now(UTC)
        made = _is_due(_read(self.authority), moment) or not self._authority_key.is_file()
        if made:
            self._make_authority(moment)
        found = _read(self.server)
        is_good = found is not None and set(names) <= set(names_of(found)) and not _is_due(found, moment)
        if is_good and not made and self.server_key.is_file():
            return False
        self._make_server(names, moment)
        return True

    def renew(self, names: Sequence[str], *, authority: bool = False) -> None:
        """Make a new server certificate now; with `authority` a new authority too, which other hosts must be given."""
        moment = datetime.now(UTC)
        if authority or _is_due(_read(self.authority), moment) or not self._authority_key.is_file():
            self._make_authority(moment)
        self._make_server(names, moment)

    def facts(self) -> dict[str, dict[str, Any]]:
        """What is there, as `cairn certs show` tells it."""
        found = {"authority": _read(self.authority), "server": _read(self.server)}
        return {what: _facts(one) for what, one in found.items() if one is not None}

    def names(self) -> list[str]:
        """The names that the server's certificate bears."""
        found = _read(self.server)
        return names_of(found) if found else []

    def _make_authority(self, now: datetime) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"Cairn {socket.gethostname()}")
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        certificate = (
            _builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        _write(self._authority_key, _private(key))
        _write(self.authority, certificate.public_bytes(serialization.Encoding.PEM))

    def _make_server(self, names: Sequence[str], now: datetime) -> None:
        signer = serialization.load_pem_private_key(self._authority_key.read_bytes(), None)
        issuer = _read(self.authority)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)  # noqa: S101 - we have made it
        assert issuer is not None  # noqa: S101
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
        certificate = (
            _builder(_name(names[0]), issuer.subject, key.public_key(), now, SERVER_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
            .sign(signer, hashes.SHA256())
        )
        # The key first: who loads both in between gets two that do not fit, and keeps what it has.
        _write(self.server_key, _private(key))
        chain = certificate.public_bytes(serialization.Encoding.PEM) + self.authority.read_bytes()
        _write(self.server, chain)


def names_of(certificate: x509.Certificate) -> list[str]:
    """The names and addresses that a certificate is good for."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def names_for(address: str) -> list[str]:
    """The names by which a stack that listens there is known: the address, this host's names, and loopback."""
    return _once([address, socket.gethostname(), socket.getfqdn(), "localhost", "127.0.0.1"])


def _once(names: Collection[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _is_due(certificate: x509.Certificate | None, now: datetime) -> bool:
    return certificate is None or certificate.not_valid_after_utc - now < RENEWED_WITHIN


def _facts(certificate: x509.Certificate) -> dict[str, Any]:
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    return {
        "names": [] if constraints.ca else names_of(certificate),
        "valid_from": certificate.not_valid_before_utc.isoformat(),
        "valid_until": certificate.not_valid_after_utc.isoformat(),
        "days_left": (certificate.not_valid_after_utc - datetime.now(UTC)).days,
        "sha256": certificate.fingerprint(hashes.SHA256()).hex(),
    }


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:LONGEST_COMMON_NAME])])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read(path: Path) -> x509.Certificate | None:
    """The first certificate of the file, or None where there is none."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0]
    except (FileNotFoundError, ValueError):
        return None


def _write(path: Path, content: bytes) -> None:
    """Replace the file as a whole, readable by its owner only."""
    temporary = path.with_suffix(f"{path.suffix}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
