"""`./seamline audit signed`: a file that was changed in any way that some reader would see is no file that passes."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from seamline.adapters.signing import SIGNATURE, signer_of
from seamline.cli.main import main
from seamline.domain.errors import ConfigError
from tests.documented import block
from tests.unit.declared import write_declarations

VERDICT = {
    "sync": "settlement",
    "destination": "warehouse",
    "business_date": "2026-11-19",
    "run": "r1",
    "verdict": "MATCH",
    "rows": 5,
    "note": "as",
    "reason": "ä 对账 😀",
}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file, private = tmp_path / "signing.pem", Ed25519PrivateKey.generate()
    file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.chmod(0o600)
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public.pem").write_bytes(public)
    return file


def export(key: Path) -> str:
    return json.dumps([{**VERDICT, SIGNATURE: signer_of(key).signature(VERDICT)}])


def checked(key: Path, text: str) -> int:
    file = key.with_name("export.json")
    file.write_text(text, encoding="utf-8")
    return main(["audit", "signed", str(file), "--key", str(key.with_name("public.pem"))])


def in_signature(**changed: Any) -> Callable[[str], str]:
    def change(text: str) -> str:
        (one,) = json.loads(text)
        return json.dumps([{**one, SIGNATURE: {**one[SIGNATURE], **changed}}])

    return change


def other_base64(text: str) -> str:
    """The last bits of 64 bytes in base64 mean nothing."""
    (one,) = json.loads(text)
    value = one[SIGNATURE]["value"]
    other = next(
        found
        for sign in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
        if (found := f"{value[:-3]}{sign}==") != value and base64.b64decode(found) == base64.b64decode(value)
    )
    return in_signature(value=other)(text)


def test_an_export_as_it_was_handed_out_passes(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(key, export(key)) == 0
    assert checked(key, json.dumps(json.loads(export(key)), indent=4, sort_keys=True)) == 0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace('"verdict": ', '"verdict": "BREAK", "verdict": '), id="a name twice"),
        pytest.param(lambda text: text.replace('"rows": 5', '"rows": 5.0'), id="5 as 5.0"),
        pytest.param(lambda text: text.replace('"rows": 5', '"rows": 50e-1'), id="5 as 50e-1"),
        pytest.param(lambda text: text.replace('"rows": 5', '"rows": NaN'), id="NaN"),
        pytest.param(lambda text: text.replace('"rows": 5', f'"rows": {"9" * 5000}'), id="thousands of digits"),
        pytest.param(lambda text: text.replace('"as"', '"\\ud800"'), id="half a character"),
        pytest.param(lambda text: text.replace('"settlement"', '"\\ud800\\u001b[2J"'), id="half a character in a name"),
        pytest.param(lambda text: text.replace('"as"', "[" * 20_000 + "]" * 20_000), id="deep"),
        pytest.param(lambda text: text.replace('"as"', "[" * 900 + "]" * 900), id="less deep"),
        pytest.param(in_signature(algorithm="none"), id="another algorithm"),
        pytest.param(in_signature(by="the auditor"), id="one field more in the signature"),
        pytest.param(in_signature(value="ä"), id="a signature of other letters"),
        pytest.param(in_signature(value=None), id="no value"),
        pytest.param(other_base64, id="another text of the same bytes"),
    ],
)
def test_a_changed_export_is_a_fault_and_never_a_traceback(
    key: Path, change: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = export(key)
    assert change(text) != text
    assert checked(key, change(text)) in (1, 2)
    said = capsys.readouterr()
    assert "Traceback" not in said.err and "\x1b" not in said.out
    assert "FAULT" in said.out or "holds no export that can be checked" in said.err


def test_a_signing_key_that_others_may_read_signs_nothing(key: Path) -> None:
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="signing key .* can be read by others") as refused:
        signer_of(key)
    assert refused.value.hint == f"chmod 600 {key}"


@pytest.mark.parametrize("fault", ["can be read by others", "holds no private key that can be read"])
def test_validate_names_a_signing_key_that_signs_nothing(
    fault: str, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It came to light when somebody took the first export away."""
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(tmp_path / "declared")))
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    monkeypatch.setenv("SEAMLINE_SIGNING_KEY", str(key))
    assert main(["validate"]) == 0
    key.chmod(0o644) if "others" in fault else key.unlink()
    assert main(["validate"]) == 2
    said = capsys.readouterr().err
    assert "SEAMLINE_SIGNING_KEY" in said and fault in said


def test_a_receiver_checks_an_export_by_the_program_of_the_page_without_seamline(key: Path, checkout: Path) -> None:
    program = block(checkout, "docs/how-to/sign-and-hand-over.md", "import base64")

    def ran(text: str) -> subprocess.CompletedProcess[str]:
        key.with_name("export.json").write_text(text, encoding="utf-8")
        # Isolated: nothing of the checkout can be imported.
        line = [sys.executable, "-I", "-c", program]
        return subprocess.run(line, cwd=key.parent, capture_output=True, text=True, timeout=60, check=False)

    right = ran(export(key))
    assert (right.returncode, right.stdout) == (0, "warehouse 2026-11-19 MATCH is as it was signed\n"), right.stderr
    for changed in (
        export(key).replace('"MATCH"', '"BREAK"'),
        export(key).replace('"rows": 5', '"rows": 5.0'),
        in_signature(value=base64.b64encode(bytes(64)).decode())(export(key)),
        json.dumps([{**VERDICT, SIGNATURE: None}]),
    ):
        assert ran(changed).returncode != 0, changed
