"""`up` and `down`: brings the chosen components up side by side, each as soon as what it needs is ready."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

from seamline import settings
from seamline.domain.errors import ConfigError, SeamlineError, TerminalError
from seamline.stack import (
    airflow,
    credentials,
    jars,
    java,
    kafka,
    leftovers,
    mariadb,
    own_connectors,
    ports_in_use,
    postgres,
    programs,
    provision,
    shared_files,
    stream_host,
)
from seamline.stack import supervisor as keeper
from seamline.stack.components import COMPONENTS, Component
from seamline.stack.folder_lock import lock_after_waiting, lock_or_refuse
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress
from seamline.stack.waiting import wait_until

_LOG_LINES = 15
# How many processes a program may use up while it starts; 0, seen while it waits to be tried again, counts as one.
_LIVES_MAX = 4
# How often `down` says what it waits for: of a Connect worker up to 45 s.
_STILL_WAITING_S = 5.0


def prepare(layout: Layout, progress: Progress, *, configurations: Iterable[str] = ()) -> None:
    """Make sure that every jar of the stack, or those of some configurations of ivy.xml, is there and is right."""
    locked = jars.of_the_stack(jars.read_lock(layout.settings.root / "jars" / "jars.lock"))
    wanted = tuple(configurations)
    files = tuple(file for file in locked if not wanted or file.configuration in wanted)
    fetch = jars.ivy(layout, settings.process_environment())
    cache = settings.user_cache()
    store = shared_files.SharedFiles(cache and cache / "seamline" / "files")

    def fetch_aloud(missing: Iterable[str], into: Path) -> None:
        names = tuple(missing)
        wanted_mb = sum(file.size_bytes for file in files if file.configuration in names) // 10**6
        progress.say(f"fetching jars ({', '.join(names)}), {wanted_mb} MB; one to two minutes the first time")
        with progress.saying(lambda: f"{jars.fetched_bytes(into) // 10**6} of {wanted_mb} MB are here"):
            fetch(names, into)

    # Two commands, or two sessions of tests, may share this folder.
    with lock_after_waiting(
        layout.settings.env, "prepare", on_wait=lambda: progress.say("waiting for another setup of this folder")
    ):
        fetched = jars.ensure(files, layout.jars, fetch=shared_files.fetch_once(store, files, fetch_aloud))
        jars.unpack(files, layout, share=store.share)
        own_connectors.compile_into_plugins(files, layout, settings.process_environment())
        # What starts Java later, an image's entrypoint too, finds the environment's own where this machine has none.
        java.find(layout, settings.process_environment())
    if fetched:
        progress.say(f"{fetched} jars put in place and checked")


def up(layout: Layout, components: tuple[Component, ...], progress: Progress) -> None:
    """Bring these components up and return when each has answered. What runs already with these settings is left
    alone, what runs with other declarations or connections is started again."""
    with lock_or_refuse(layout, "stack", what="`seamline up` or `down`"):
        prepare(layout, progress)
        is_fresh = not keeper.is_running(layout)
        if not is_fresh:
            keeper.require_same_place(layout)
        if is_fresh:
            swept = leftovers.end(one for one in leftovers.processes(layout) if not one.is_detached)
            if swept:
                progress.say(f"{swept} processes of a stack that was killed were ended")
        ports_in_use.require_free(components, layout)
        made = credentials.load_or_make(layout)
        credentials.write_files(layout, made)
        if is_fresh:
            keeper.start(layout)
        elif again := keeper.take_new_settings(layout):
            progress.say(f"started again with the new settings: {', '.join(again)}")
        _run_side_by_side(components, _Boot(layout, made, progress))


def down(layout: Layout, progress: Progress) -> int:
    """Stop everything of this data folder, detached Spark drivers too. Return how many processes had to be swept."""
    if not layout.data.exists():
        return 0
    with lock_or_refuse(layout, "stack", what="`seamline up` or `down`"):
        if keeper.is_running(layout):
            for wave in _waves():
                _stop(layout, [program.name for part in wave for program in part.programs], progress)
            keeper.shut_down(layout)
        swept = leftovers.end(leftovers.processes(layout))
        layout.supervisor_socket.unlink(missing_ok=True)
        progress.say("everything is stopped" + (f"; {swept} more processes were ended" if swept else ""))
        return swept


def _stop(layout: Layout, names: list[str], progress: Progress) -> None:
    def alive() -> str:
        return ", ".join(name for name, one in keeper.states(layout).items() if name in names and one.pid)

    if first := alive():
        progress.say(f"stopping {first}")
    with progress.saying(lambda: f"waiting for {alive() or 'the last of them'} to stop", every_s=_STILL_WAITING_S):
        keeper.stop_programs(layout, names)


def _waves() -> list[list[Component]]:
    """Components in the order of stopping: first what nothing else needs. Within a wave all stop at once."""
    waves, rest = [], list(COMPONENTS)
    while rest:
        needed = {need for part in rest for need in part.needs}
        wave = [part for part in rest if part.name not in needed]
        waves.append(wave)
        rest = [part for part in rest if part not in wave]
    return waves


class _Boot:
    """What it takes to bring each component up."""

    def __init__(self, layout: Layout, made: dict[str, str], progress: Progress) -> None:
        self._layout = layout
        self._made = made
        self._progress = progress
        self._environment = programs.environment(layout)

    def bring_up(self, part: Component) -> None:
        steps: dict[str, Callable[[Component], None]] = {
            "postgres": self._postgres,
            "mariadb": self._mariadb,
            "kafka": self._kafka,
            "connect": self._connect,
            "airflow": self._airflow,
            "stream_host": self._stream_host,
            "bank_writers": self._bank_writers,
        }
        began = self._progress.elapsed_s
        try:
            steps[part.name](part)
        except ConfigError:
            raise
        except SeamlineError as exc:
            raise TerminalError(f"{part.title} did not come up. {exc.message}", hint=exc.hint or part.cure) from exc
        self._progress.say(f"{part.title}: ready ({self._progress.elapsed_s - began:.1f} s)")

    def _postgres(self, part: Component) -> None:
        postgres.initialise(self._layout, self._made)
        self._start(part, partial(postgres.is_ready, self._layout))
        postgres.provision(self._layout.settings)
        provision.migrate_platform()

    def _mariadb(self, part: Component) -> None:
        mariadb.initialise(self._layout)
        self._start(part, partial(mariadb.is_ready, self._layout))
        mariadb.provision(self._layout.settings)

    def _kafka(self, part: Component) -> None:
        kafka.initialise(self._layout, self._made, self._environment["JAVA_HOME"])
        self._start(part, partial(kafka.broker_is_ready, self._layout))

    def _connect(self, part: Component) -> None:
        kafka.write_connect_files(self._layout)
        self._start(part, partial(kafka.connect_is_ready, self._layout))

    def _airflow(self, part: Component) -> None:
        airflow.migrate(self._layout, programs.airflow_environment(self._layout))
        # Only here: it loads the declarations, which no other part of the stack needs.
        from seamline.stack import airflow_pools

        self._start(part, lambda: airflow.is_ready(self._layout) and airflow_pools.are_made(self._layout))

    def _stream_host(self, part: Component) -> None:
        # Airflow started it while the stack's own was away. It would keep the pool, and the own could not start.
        if leftovers.end(stream_host.of_airflow(self._layout, leftovers.processes(self._layout))):
            self._progress.say("a stream host that Airflow had started was ended: the stack's own takes its place")
        self._start(part, partial(stream_host.is_ready, self._layout))

    def _bank_writers(self, part: Component) -> None:
        # They serve nobody whom one could ask.
        self._start(part, lambda: True)

    def _start(self, part: Component, answers: Callable[[], bool]) -> None:
        """Start the component's programs and wait until it answers; stop waiting when one ends again and again."""
        names = [program.name for program in part.programs]
        for name in names:
            keeper.start_program(self._layout, name)
        lives: dict[str, set[int]] = {name: set() for name in names}

        def broken() -> str:
            return next((name for name, pids in lives.items() if len(pids) > _LIVES_MAX), "")

        def settled() -> bool:
            states = keeper.states(self._layout)
            for name in names:
                lives[name].add(states[name].pid)
            return bool(broken()) or (all(states[name].is_running for name in names) and answers())

        if not wait_until(settled, timeout_s=part.ready_within_s):
            raise self._failure(part, names[0], f"it did not answer within {part.ready_within_s} s")
        if broken():
            raise self._failure(part, broken(), "it ended again and again")

    def _failure(self, part: Component, name: str, why: str) -> TerminalError:
        lines = "\n    ".join(log_tail(self._layout, name, lines=_LOG_LINES))
        # It would go on failing unseen; the next `up` tries it again.
        keeper.stop_programs(self._layout, [program.name for program in part.programs])
        return TerminalError(f"{name}: {why}. The end of {self._layout.log_of(name)}:\n    {lines}", hint=part.cure)


def log_tail(layout: Layout, program: str, *, lines: int) -> list[str]:
    """The last lines of a program's log."""
    try:
        text = layout.log_of(program).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ["(there is no log yet)"]
    return text.splitlines()[-lines:]


def _run_side_by_side(components: tuple[Component, ...], boot: _Boot) -> None:
    """Run each as soon as what it needs is ready. The first failure is raised once what was begun has ended."""
    waiting = {part.name: part for part in components}
    ready: set[str] = set()
    running: dict[Future[None], str] = {}
    failure: BaseException | None = None
    with ThreadPoolExecutor(max_workers=len(components) or 1) as pool:
        while running or (waiting and failure is None):
            if failure is None:
                for part in [one for one in waiting.values() if ready.issuperset(one.needs)]:
                    del waiting[part.name]
                    running[pool.submit(boot.bring_up, part)] = part.name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                failure = failure or future.exception()
                ready.add(name)
    if failure is not None:
        raise failure
