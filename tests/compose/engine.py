"""A container engine of the test's own: Debian's packages, unpacked and run in a folder, and all of it gone afterwards.

Nothing is installed, so it needs no Debian 12 beside it but root, a kernel with overlay and namespaces, and Debian's
package registry. What the engine leaves in the kernel (bridges, rules, a switch) is taken away again.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seamline import settings
from seamline.stack.waiting import wait_until

# Debian 12's engine, and from unstable what that has not: a Compose v2 and the builder that it calls.
STABLE = (
    "containerd", "debootstrap", "docker.io", "iptables", "libapparmor1", "libdevmapper1.02.1", "libip4tc2",
    "libip6tc2", "libjson-c5", "libmnl0", "libnetfilter-conntrack3", "libnfnetlink0", "libnftnl11", "libseccomp2",
    "libxtables12", "runc", "tini",
)  # fmt: skip
UNSTABLE = ("docker-buildx", "docker-compose")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
NEEDED = ("apt-get", "dpkg-deb", "ip", "wget", "tar")
STARTED_WITHIN_S = 120
ENDED_WITHIN_S = 60
_MINE = re.compile(r"DOCKER|docker0|\bbr-[0-9a-f]{12}\b")
_TABLES = ("nat", "filter")
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
# Where engines keep sockets and the like, wherever their data is.
_RUN = (Path("/run/containerd"), Path("/run/docker"))


class CannotStart(Exception):
    """No engine can start here; the text says why in one line."""


@dataclass
class Engine:
    """Start it, use `docker`, end it. `folder` is made and removed by it."""

    folder: Path
    _daemon: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    _rules_before: dict[str, list[str]] = field(default_factory=dict, repr=False)
    _forward_before: str = field(default="", repr=False)
    _run_new: tuple[Path, ...] = field(default=(), repr=False)

    @property
    def root(self) -> Path:
        """Where the packages are unpacked."""
        return self.folder / "unpacked"

    def start(self) -> None:
        """Raises CannotStart, after taking away what was begun."""
        _require_a_machine_for_it()
        try:
            self._unpack()
            self._rules_before = {table: self._rules(table) for table in _TABLES}
            self._forward_before = _FORWARD.read_text(encoding="ascii")
            self._run_new = tuple(folder for folder in _RUN if not folder.exists())
            self._serve()
        except CannotStart:
            self.end()
            raise

    def end(self) -> None:
        """Also after half a start. Ends only what it has started."""
        self.stop()
        _unmount_below(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        """End the daemon and take away what it has left in the kernel; its packages stay."""
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGTERM)
            try:
                self._daemon.wait(ENDED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()
            self._daemon = None
            self._take_away_networks()
            for folder in self._run_new:
                _unmount_below(folder)
                shutil.rmtree(folder, ignore_errors=True)

    def docker(
        self, *words: str, given: bytes | None = None, timeout_s: float = 600, **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(self.root / "usr/bin/docker"), *words],
            input=given,
            env={**self.variables, **variables},
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )

    @property
    def variables(self) -> dict[str, str]:
        """With them a program finds this engine, its parts and no other engine."""
        own = settings.process_environment()
        libraries = self.root / "usr/lib/x86_64-linux-gnu"
        found = ":".join(str(self.root / part) for part in ("found", "usr/sbin", "usr/bin"))
        return {
            **own,
            "PATH": f"{found}:{own.get('PATH', os.defpath)}",
            "LD_LIBRARY_PATH": str(libraries),
            "XTABLES_LIBDIR": str(libraries / "xtables"),
            "DEBOOTSTRAP_DIR": str(self.root / "usr/share/debootstrap"),
            "DOCKER_HOST": f"unix://{self.folder}/socket",
            "DOCKER_CONFIG": str(self.folder / "client"),
        }

    def debian(self, release: str, packages: Sequence[str]) -> Path:
        """The root of a small Debian, as debootstrap makes it."""
        target = self.folder / "debian"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", release, str(target)]
        self._run("make a Debian", command, env=self.variables)
        _unmount_below(target)
        return target

    def take_over(self, debian: Path, name: str) -> None:
        """Make an image of a root."""
        with subprocess.Popen(["tar", "-C", str(debian), "-c", "."], stdout=subprocess.PIPE) as packed:
            command = [str(self.root / "usr/bin/docker"), "import", "-", name]
            subprocess.run(command, stdin=packed.stdout, env=self.variables, check=True, capture_output=True)
        shutil.rmtree(debian)

    def build(self, name: str, context: bytes) -> None:
        """Build an image from a tar."""
        answer = self.docker("build", "--quiet", "--tag", name, "-", given=context, DOCKER_BUILDKIT="0")
        assert answer.returncode == 0, f"{name}: {(answer.stdout + answer.stderr).decode()[-3000:]}"

    def _unpack(self) -> None:
        apt = self.folder / "apt"
        for part in ("lists/partial", "cache/archives/partial", "debs"):
            (apt / part).mkdir(parents=True)
        source = f"deb [signed-by={KEYRING}] http://deb.debian.org/debian"
        (apt / "sources.list").write_text(f"{source} bookworm main\n{source} sid main\n", encoding="utf-8")
        # Its own lists: the machine's stay as they are.
        (apt / "apt.conf").write_text(
            f'Dir::Etc::SourceList "{apt}/sources.list";\nDir::Etc::SourceParts "/dev/null";\n'
            f'Dir::State::Lists "{apt}/lists";\nDir::Cache "{apt}/cache";\nAPT::Sandbox::User "root";\n',
            encoding="utf-8",
        )
        variables = {**settings.process_environment(), "APT_CONFIG": str(apt / "apt.conf")}
        self._run("read Debian's package lists", ["apt-get", "update", "-qq"], env=variables)
        wanted = [*(f"{name}/bookworm" for name in STABLE), *(f"{name}/sid" for name in UNSTABLE)]
        self._run("fetch its packages", ["apt-get", "download", "-qq", *wanted], env=variables, cwd=apt / "debs")
        for package in sorted((apt / "debs").glob("*.deb")):
            self._run("unpack its packages", ["dpkg-deb", "-x", str(package), str(self.root)])
        found, plugins = self.root / "found", self.folder / "client" / "cli-plugins"
        found.mkdir()
        plugins.mkdir(parents=True)
        # What Debian's alternatives would link.
        for name in ("iptables", "ip6tables"):
            (found / name).symlink_to(self.root / "usr/sbin/xtables-nft-multi")
        for plugin in (self.root / "usr/libexec/docker/cli-plugins").iterdir():
            (plugins / plugin.name).symlink_to(plugin)

    def _serve(self) -> None:
        log = self.folder / "dockerd.log"
        places = [f"--{name}={self.folder}/{name}" for name in ("data-root", "exec-root")]
        command = ["dockerd", *places, f"--pidfile={self.folder}/pid", f"--host=unix://{self.folder}/socket"]
        with log.open("wb") as said:
            self._daemon = subprocess.Popen(command, env=self.variables, stdout=said, stderr=said)
        daemon = self._daemon

        def answered() -> bool:
            return daemon.poll() is not None or self.docker("version").returncode == 0

        has_answered = wait_until(answered, timeout_s=STARTED_WITHIN_S)
        if not has_answered or daemon.poll() is not None:
            raise CannotStart(f"dockerd does not start here: {_last_line(log.read_text(errors='replace'))}")

    def _run(self, what: str, command: Sequence[str], *, env: Mapping[str, str] | None = None, **more: Path) -> None:
        answer = subprocess.run(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=900,
            **more,
        )
        if answer.returncode != 0:
            raise CannotStart(f"could not {what}: {_last_line(answer.stdout)}")

    def _rules(self, table: str) -> list[str]:
        answer = subprocess.run(
            ["iptables", "-w", "-t", table, "-S"], env=self.variables, capture_output=True, text=True, check=False
        )
        if answer.returncode != 0:
            raise CannotStart(f"iptables does not work here: {_last_line(answer.stderr)}")
        return answer.stdout.splitlines()

    def _take_away_networks(self) -> None:
        """Rules first, then the chains that they were in; and what it has switched is switched back."""
        for table, before in self._rules_before.items():
            new = [line for line in self._rules(table) if line not in before]
            policies = [line for line in before if line.startswith("-P ")]
            rules = [f"-D {line[3:]}" for line in new if line.startswith("-A ") and _MINE.search(line)]
            chains = [line[3:] for line in new if line.startswith("-N ") and _MINE.search(line)]
            for line in [*rules, *(f"-F {one}" for one in chains), *(f"-X {one}" for one in chains), *policies]:
                command = ["iptables", "-w", "-t", table, *line.split()]
                subprocess.run(command, env=self.variables, capture_output=True, check=False)
        for bridge in _bridges():
            subprocess.run(["ip", "link", "delete", bridge], capture_output=True, check=False)
        _FORWARD.write_text(self._forward_before, encoding="ascii")

    def left(self) -> list[str]:
        """What of it is still in the kernel, or in a folder that it did not find."""
        rules = [line for table in _TABLES for line in self._rules(table) if _MINE.search(line)]
        return [*rules, *_bridges(), *(str(folder) for folder in self._run_new if folder.exists())]


def _require_a_machine_for_it() -> None:
    if os.geteuid() != 0:
        raise CannotStart("an engine of its own needs root")
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking or not KEYRING.exists():
        raise CannotStart(f"Debian's packages cannot be fetched here: {', '.join(lacking) or KEYRING} is missing")
    if list(_bridges()):
        raise CannotStart("another engine is at work on this machine (docker0 or br-…), and two would share its rules")


def _bridges() -> Iterator[str]:
    for link in sorted(Path("/sys/class/net").iterdir()):
        if _MINE.fullmatch(link.name):
            yield link.name


def _unmount_below(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    for place in sorted((one for one in mounts if Path(one).is_relative_to(folder)), reverse=True):
        subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it gave no reason"
