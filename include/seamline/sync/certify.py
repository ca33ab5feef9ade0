"""The parity certificate of a sync: probe rows with the edge values of its own tables go both ways and are compared.

Production is not touched. The probes are tables of their own, in a capture of their own (connector, topics, slot,
publication) and in schemas of their own; all of it is removed at the end, and what a killed certificate left at the
beginning of the next.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from seamline.domain.canonical import floats_agree, is_exact
from seamline.domain.catalogue import NAME_BYTES_MAX, Column, Table
from seamline.domain.certificate import Certificate, ColumnParity, DestinationParity, LeftOut, Unlike
from seamline.domain.changes import Finding
from seamline.domain.errors import ConfigError, InvariantViolated, SeamlineError, TerminalError
from seamline.domain.names import NameLimit, NameUnit, fitted_name
from seamline.domain.probe import NULL, Probe, probe_of
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports.certificates import ProbeDestination
from seamline.sync.probe_run import CertifyTools, ProbeRun

_SHOWN_MAX = 20
_Unlikes = dict[tuple[str, str], tuple[Unlike, ...]]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A table's probe, and the values that are left out of it, by column."""

    probe: Probe
    left_out: Mapping[str, Sequence[LeftOut]]


def own_plan(plan: SyncPlan, owner: str) -> SyncPlan:
    """The certificate's own capture and destinations, without tables yet. No declared name holds `~`, `-` or `.`."""
    mark = hashlib.sha256(f"{plan.source.name} {plan.sync}".encode()).hexdigest()[:8]
    source = replace(
        plan.source,
        name=f"certify_{mark}",
        reader=owner,
        # A marker announces to every stream of the source which tables its capture carries: here they are others.
        marker=owner,
        marker_table=f"seamline_certify_marker_{mark}",
        log_topic=f"seamline.certify.{plan.sync}.log",
        connector=f"seamline-certify-{plan.sync}",
        snapshot_lock="none",
    )
    schema = f"seamline_certify_{plan.sync}"
    # Two destinations may lie in one database.
    destinations = tuple(
        replace(one, namespace=f"{schema}_{number}" if number else schema)
        for number, one in enumerate(plan.destinations)
    )
    return replace(plan, sync=f"{plan.sync}~certify", source=source, destinations=destinations, tables=())


def certify(plan: SyncPlan, own: SyncPlan, tools: CertifyTools) -> Certificate:
    """Send probe rows of every table of `plan` both ways, and compare what was stored. `own` is its `own_plan`.

    Repeat-safe. A path that ends in an error leaves every column NOT SENT; an error of the preparation is raised. A
    destination that cannot be certified is NOT SENT with the reason, beside others that can; ConfigError: none can.
    """
    own, uncertified = _certifiable(own, tools)
    _remove(own, tools)
    with ExitStack() as leaving:
        leaving.callback(_remove, own, tools)
        leaving.callback(tools.say, "removing the probe tables, connector, topics and schemas")
        tools.say("asking the source which edge values it takes")
        destinations = {one.name: tools.open_destination(own, one.name) for one in own.destinations}
        chosen = [_chosen(table.definition, destinations, tools) for table in plan.tables]
        for destination in destinations.values():
            destination.prepare()
        run = ProbeRun(own, [one.probe for one in chosen if one.probe.values], tools)
        run.make()
        trouble = ""
        try:
            run.send()
        except (TerminalError, InvariantViolated) as error:
            trouble = _described(error)
        parities = tuple(_parity(run.plan, name, on, chosen, trouble, tools) for name, on in destinations.items())
        versions = (("source", tools.probes.version()), *tools.versions)
        kinds = {column.kind for table in plan.tables for column in table.definition.columns}
        limits = [limit for kind, found in tools.probes.limits().items() if kind in kinds for limit in found]
    return Certificate(plan.sync, plan.source.name, versions, (*parities, *uncertified), tuple(dict.fromkeys(limits)))


def _certifiable(own: SyncPlan, tools: CertifyTools) -> tuple[SyncPlan, Sequence[DestinationParity]]:
    """The plan with the destinations that can be certified, and the others."""
    can, cannot, last = list[DestinationPlan](), list[DestinationParity](), None
    for one in own.destinations:
        try:
            tools.open_destination(own, one.name)
        except ConfigError as error:
            last = error
            cannot.append(DestinationParity(one.name, "", "", (), _described(error)))
        else:
            can.append(one)
    if last is not None and not can:
        raise last
    return replace(own, destinations=tuple(can)), cannot


def _chosen(table: Table, destinations: Mapping[str, ProbeDestination], tools: CertifyTools) -> _Chosen:
    """The probe of a table: what its source and all destinations take of each column's edge values."""
    values: dict[str, Sequence[str]] = {}
    left_out: dict[str, Sequence[LeftOut]] = {}
    for name, literals in tools.probes.edge_values(table).items():
        column = table.column(name)
        reasons = tools.probes.refusals(table, column, literals)
        out = [LeftOut(literal, reason) for literal, reason in reasons.items()]
        for destination, on in destinations.items():
            out += [LeftOut(*both, by=destination) for both in on.without_place(column, literals).items()]
        gone = {one.value for one in out}
        left_out[name] = out
        if taken := [literal for literal in literals if literal not in gone]:
            values[name] = taken
    probe = probe_of(table, _probe_name(table.name), values, tools.probes.defaults(table))
    return _Chosen(probe, left_out)


def _probe_name(table: str) -> str:
    return fitted_name(f"seamline_certify_{table}", [NameLimit(NAME_BYTES_MAX, NameUnit.BYTES)])


def _described(error: SeamlineError) -> str:
    return f"{error.message}. {error.hint}".rstrip(". ") + "."


def _found(findings: Sequence[Finding]) -> str:
    """What production would raise an alarm for is nothing to certify, also where the end value is right."""
    return "; ".join(f"the stream met {one.kind} in {one.table} at {one.key}" for one in findings[:_SHOWN_MAX])


def _remove(own: SyncPlan, tools: CertifyTools) -> None:
    """Everything, whatever else fails; the connector first, because it reads what goes next."""
    with ExitStack() as leaving:
        leaving.callback(tools.probes.drop)
        leaving.callback(tools.topics.delete)
        for one in own.destinations:
            leaving.callback(tools.open_destination(own, one.name).remove)
        leaving.callback(tools.connect.delete)


def _parity(
    plan: SyncPlan, name: str, on: ProbeDestination, chosen: Sequence[_Chosen], trouble: str, tools: CertifyTools
) -> DestinationParity:
    """`plan` is that of the run: with the probe tables, once they were made."""
    trouble = trouble or _found(on.findings())
    probes = [] if trouble else [one.probe for one in chosen if one.probe.values]
    position, unlike = _compared(plan, name, on, probes, tools) if probes else ("", _Unlikes())
    columns = [
        ColumnParity(
            one.probe.of.name,
            column.name,
            column.source_type,
            on.type_of(column),
            0 if trouble else len(set(one.probe.values.get(column.name, ()))),
            tuple(unlike.get((one.probe.of.name, column.name), ())[:_SHOWN_MAX]),
            tuple(one.left_out[column.name]),
            one.probe.defaults.get(column.name),
            NULL in one.probe.values.get(column.name, ()),
        )
        for one in chosen
        for column in one.probe.of.columns
    ]
    return DestinationParity(name, on.version(), position, tuple(columns), trouble)


def _compared(
    plan: SyncPlan, name: str, on: ProbeDestination, probes: Sequence[Probe], tools: CertifyTools
) -> tuple[str, _Unlikes]:
    """(position of the destination, what is unlike by table and column): path against path, bit for bit, and stored
    against source by canonical text, so that both paths wrong in the same way are seen too."""
    tools.say(f"comparing what is stored in {name}")
    found: dict[tuple[str, str], dict[Unlike, None]] = defaultdict(dict)
    (source,) = tools.source.open_views(1)
    with closing(source), closing(tools.open_view(plan, name)) as stored:
        for probe in probes:
            for one in on.unlike(probe):
                unlike = _unlike(probe, one.column, one.key, "snapshot", one.by_snapshot, one.stored)
                found[probe.of.name, one.column][unlike] = None
            keys = [str(key) for key in probe.keys]
            here, there = source.rows(probe.name, keys), stored.rows(probe.name, keys)
            for column, key in _unlike_source(probe.columns, keys, here, there):
                texts = here.get(key, {}).get(column), there.get(key, {}).get(column)
                found[probe.of.name, column][_unlike(probe, column, int(key), "source", *texts)] = None
        return str(stored.position), {place: tuple(unlikes) for place, unlikes in found.items()}


def _unlike(probe: Probe, column: str, key: int, against: str, wanted: str | None, stored: str | None) -> Unlike:
    return Unlike(probe.value_at(column, key), probe.path_of(key), against, wanted, stored)


def _unlike_source(
    columns: Sequence[Column],
    keys: Sequence[str],
    here: Mapping[str, Mapping[str, str | None]],
    there: Mapping[str, Mapping[str, str | None]],
) -> Iterable[tuple[str, str]]:
    """(column, key) of each value that the source holds otherwise; a row that is missing on a side counts as unlike."""
    for key in keys:
        if key not in here or key not in there:
            yield from ((column.name, key) for column in columns)
            continue
        for column in columns:
            mine, theirs = here[key][column.name], there[key][column.name]
            is_same = mine == theirs if is_exact(column) else floats_agree(column.kind, mine, theirs)
            if not is_same:
                yield column.name, key
