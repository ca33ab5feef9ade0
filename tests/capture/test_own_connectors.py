"""connect/ is compiled into the plugin that it extends, once per state of its sources."""

import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from seamline import settings
from seamline.domain.errors import TerminalError
from seamline.kinds.found import logged_kind
from seamline.stack import jars, own_connectors
from seamline.stack.jars import LockedFile
from seamline.stack.layout import Layout

SERVICE = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"


@pytest.fixture(scope="module")
def locked(checkout: Path) -> tuple[LockedFile, ...]:
    return jars.read_lock(checkout / "jars" / "jars.lock")


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory, checkout: Path, locked: tuple[LockedFile, ...]) -> Layout:
    """A checkout with this one's sources and jars. What one test has compiled is there for the next."""
    here, folder = settings.load(), tmp_path_factory.mktemp("compiled")
    root, home = folder / "checkout", folder / "home"
    shutil.copytree(checkout / "connect", root / "connect")
    (home / "env").mkdir(parents=True)
    (home / "env" / "jars").symlink_to(here.env / "jars")
    made = Layout(replace(here, root=root, home=home))
    jars.unpack([file for file in locked if file.configuration == "debezium"], made)
    return made


def compile_all(layout: Layout, locked: tuple[LockedFile, ...]) -> dict[str, Path]:
    """The jar in each plugin, by kind of source."""
    own_connectors.compile_into_plugins(locked, layout, settings.process_environment())
    jars_in_plugins = {}
    for kind in (*own_connectors.KINDS, *own_connectors.ALONE):
        (jars_in_plugins[kind],) = layout.connect_plugins.glob(f"*-connector-{kind}*/{own_connectors.JAR}")
    return jars_in_plugins


def test_an_image_that_asks_for_other_jars_compiles_nothing(layout: Layout, locked: tuple[LockedFile, ...]) -> None:
    own_connectors.compile_into_plugins(
        [file for file in locked if file.configuration == "spark"], layout, settings.process_environment()
    )
    assert not layout.own_connectors.exists()


def test_each_plugin_that_is_extended_holds_the_classes_and_names_them_to_connect(
    layout: Layout, locked: tuple[LockedFile, ...]
) -> None:
    for kind, jar in compile_all(layout, locked).items():
        connector = logged_kind(kind).connector().plugin
        with zipfile.ZipFile(jar) as packed:
            assert packed.read(SERVICE).decode().split() == [connector]
            assert f"{connector.replace('.', '/')}.class" in packed.namelist()


def test_the_same_sources_give_the_same_jar_and_are_compiled_once(
    layout: Layout, locked: tuple[LockedFile, ...]
) -> None:
    jar = compile_all(layout, locked)["mariadb"]
    kept = layout.own_connectors / "mariadb" / own_connectors.JAR
    first, made = jar.read_bytes(), kept.stat().st_mtime_ns
    jar.unlink()
    assert compile_all(layout, locked)["mariadb"].read_bytes() == first
    assert kept.stat().st_mtime_ns == made
    shutil.rmtree(layout.own_connectors)
    assert compile_all(layout, locked)["mariadb"].read_bytes() == first


def test_a_class_that_does_not_compile_stops_setting_up_and_says_where(
    layout: Layout, locked: tuple[LockedFile, ...]
) -> None:
    compile_all(layout, locked)
    broken = next((layout.settings.root / "connect").rglob("PostgresConnector.java"))
    whole = broken.read_text(encoding="utf-8")
    broken.write_text(whole.replace("Task.class", "Nowhere.class"), encoding="utf-8")
    with pytest.raises(TerminalError, match=r"PostgresConnector\.java.*\n.*Nowhere"):
        compile_all(layout, locked)
    broken.write_text(whole, encoding="utf-8")
