"""A certificate authority for tests: X.509-SVIDs as SPIRE would issue them, and some it never would."""

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


class Authority:
    """Signs certificates into a directory."""

    def __init__(self, directory: Path, name: str = "test ca") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self.name, self.key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate = builder.sign(self.key, hashes.SHA256())
        self.file = directory / "ca.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, public_key: Any, **life: Any) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(life.get("not_before", now - DAY))
            .not_valid_after(life.get("not_after", now + DAY))
        )

    def issue(
        self, label: str, *uris: str, dns: tuple[str, ...] = (), ips: tuple[str, ...] = (), **life: Any
    ) -> tuple[Path, Path]:
        """Return certificate and key file of a workload with these URI SANs."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        names += [x509.DNSName(name) for name in dns]
        names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in ips]
        builder = self._builder(x509.Name([]), key.public_key(), **life)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
        certificate = builder.sign(self.key, hashes.SHA256())
        certificate_file, key_file = self.directory / f"{label}.pem", self.directory / f"{label}.key"
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        key_file.chmod(0o600)
        return certificate_file, key_file
