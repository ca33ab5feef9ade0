"""What the demo brings only when somebody names it: `./seamline demo --with <names>`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from seamline.demo import lake
from seamline.domain.errors import ConfigError
from seamline.plan.model import SyncPlan
from seamline.stack import lake as lake_of_the_stack
from seamline.stack.layout import Layout


@dataclass(frozen=True, slots=True)
class Extra:
    """One more destination of the demo's sync. `declare` is called with the sync's name before the stack is up,
    `provision` once it is; either may be repeated. `describe`: lines of the demo's report beyond the verdicts."""

    name: str
    declare: Callable[[Layout, str], None]
    provision: Callable[[Layout], None]
    describe: Callable[[SyncPlan], Iterable[str]]


EXTRAS = {one.name: one for one in (Extra("lake", lake.declare, lake_of_the_stack.provision, lake.describe),)}


def chosen(names: Iterable[str]) -> tuple[Extra, ...]:
    """Those of these names, each once."""
    found = dict.fromkeys(names)
    for name in found:
        if name not in EXTRAS:
            raise ConfigError(f"the demo has nothing called `{name}` to add", hint=f"known are {', '.join(EXTRAS)}")
    return tuple(EXTRAS[name] for name in found)
