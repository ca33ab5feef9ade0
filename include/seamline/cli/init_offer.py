"""What `./seamline init` offers at a terminal at its end: the scripts of both owners, then the onboarding."""

from collections.abc import Callable, Sequence

from seamline.cli.main import main

WAIT_MIN = 30
_QUESTION = (
    f"The owners run what stands above. Wait up to {WAIT_MIN} minutes until the rights hold, and onboard {{}}? [y/N]: "
)


def offer(
    sync: str, parts: Sequence[str], *, ask: Callable[[str], str] = input, run: Callable[[Sequence[str]], int] = main
) -> int:
    """`parts`: names of the source and the destination. The exit code of the onboarding; 0 where it is not wanted."""
    for name in parts:
        if code := run(["grants", name]):
            return code
    try:
        answer = ask(_QUESTION.format(sync))
    except EOFError:
        return 0
    return run(["onboard", sync, "--wait", str(WAIT_MIN)]) if answer.strip().lower() in ("y", "yes") else 0
