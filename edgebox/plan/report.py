"""A plan for people to read: plain text, one number's arithmetic, and two plans side by side.

Pure: a plan in, lines of text out. Colour and columns of a terminal are the command's
business; here is what is said, so that it can be kept in a file and compared.
"""

from __future__ import annotations

from difflib import get_close_matches
from textwrap import wrap

from edgebox.plan.figures import Advice, Ceiling, Number, Plan, whole
from edgebox.plan.quantity import count, many, rate, significant, size, written

WIDTH = 96
_MARKS = {"planned": "", "assumed": " (assumed)", "configured": " (set)"}


def text(plan: Plan) -> str:
    """Everything: the verdict, each number with its reason and sum, the ceilings, the advice."""
    lines = [*verdict(plan), ""]
    for number in plan.numbers:
        lines += _entry(number)
    lines += ["", "What runs out, in order:"]
    for ceiling in plan.ceilings:
        lines += _ceiling(ceiling)
    lines += ["", *advice(plan)]
    if plan.what_if:
        lines += ["", *other_memory(plan)]
    return "\n".join(lines) + "\n"


def brief(plan: Plan) -> str:
    """One line for a log: what was made of the machine, and what runs out first."""
    workers, connections = whole(plan.number("server.workers")), plan.number("limits.connections")
    speed, objects = plan.value("nic.speed"), plan.number("files.working_set")
    link = f"{plan.interface or 'the link'} at {written(speed, 'bits/s')}" if speed else (
        "a link of unknown speed"
    )  # fmt: skip
    first = f"; first to run out: the {plan.bottleneck}" if plan.bottleneck else ""
    return (
        f"planned for {link}: {many(workers, 'worker')}, {whole(connections):,} connections,"
        f" {written(objects.value, 'bytes')} of RAM for objects{first}"
    )


def verdict(plan: Plan) -> list[str]:
    """What runs out first, and what next: two sentences."""
    if plan.bottleneck is None:
        return ["What runs out first is unknown."]
    first = plan.ceiling(plan.bottleneck)
    lines = []
    if plan.value("nic.speed") is None:
        lines.append("The link's speed is unknown, so it is left out of what follows.")
    lines.append(f"First to run out: the {first.resource}, at {_carried(first)}.")
    if plan.runner_up is not None:
        second = plan.ceiling(plan.runner_up)
        lines.append(f"Next: the {second.resource}, at {_carried(second)}{_times(first, second)}.")
    return lines


def advice(plan: Plan) -> list[str]:
    """What the operator could do; nothing of it is done for him."""
    if not plan.advice:
        return ["Nothing outside edgebox would help that can be seen from here."]
    lines = ["What would help (nothing is changed without being asked):"]
    for item in plan.advice:
        lines += _advice(item)
    return lines


def other_memory(plan: Plan) -> list[str]:
    """What more RAM for objects would bring and less would cost, as the running server has seen."""
    if not plan.what_if:
        return ["No running server has seen yet what other RAM would bring."]
    here = plan.value("files.working_set") or 0
    now, ratio = min(plan.what_if, key=lambda point: abs(point[0] - here))
    lines = [f"With {size(now)} of RAM, {ratio:.1%} of objects are there when they are wanted:"]
    for other, hits in plan.what_if:
        if other != now:
            sign = "+" if other > now else "−"
            change = f"{abs(hits - ratio) * 100:.1f} %"
            lines.append(f"  {sign}{size(abs(other - now))} → {sign}{change}")
    return lines


def explain(plan: Plan, key: str) -> list[str]:
    """One number's reason, arithmetic and inputs. KeyError says what was meant."""
    try:
        number = plan.number(key)
    except KeyError:
        keys = [number.key for number in plan.numbers]
        near = get_close_matches(key, keys, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(keys)}"
        raise KeyError(f"the plan has no {key}: {hint}") from None
    lines = _entry(number)
    if number.inputs:
        lines.append("  from")
        wide = max(len(given.name) for given in number.inputs)
        lines += [
            f"    {given.name:<{wide}}  {written(given.value, given.unit)}  ({given.source})"
            for given in number.inputs
        ]
    return lines


def comparison(now: Plan, then: Plan, change: str) -> str:
    """Two plans side by side: what runs out, and every number that the change moves."""
    lines = ["Now:", *(f"  {line}" for line in verdict(now))]
    lines += [f"With {change}:", *(f"  {line}" for line in verdict(then)), ""]
    rows = [("number", "now", "then", ""), *differences(now, then)]
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    for key, before, after, times in rows:
        row = f"{key:<{wide[0]}}  {before:>{wide[1]}}  {after:>{wide[2]}}  {times}"
        lines.append(row.rstrip())
    if len(rows) == 1:
        lines.append("Nothing else would change.")
    return "\n".join(lines) + "\n"


def differences(now: Plan, then: Plan) -> list[tuple[str, str, str, str]]:
    """Numbers that differ: key, now, then, and how many times as much."""
    before = {number.key: number for number in now.numbers}
    rows = []
    for number in then.numbers:
        was = before[number.key].value if number.key in before else None
        if was != number.value:
            old, new = written(was, number.unit), written(number.value, number.unit)
            rows.append((number.key, old, new, _ratio(was, number.value)))
    return rows


def number_text(number: Number) -> str:
    """The value with its unit, and whether it is assumed or set."""
    mark = "" if number.value is None else _MARKS[number.origin]
    return written(number.value, number.unit) + mark


def _ratio(before: float | None, after: float | None) -> str:
    return f"× {significant(after / before)}" if before and after is not None else ""


def _entry(number: Number) -> list[str]:
    lines = [f"{number.key:<29} {number_text(number)}"]
    lines += wrap(number.reason, WIDTH, initial_indent="  ", subsequent_indent="  ")
    for line in number.sum.splitlines():
        lines += wrap(line, WIDTH, initial_indent="    ", subsequent_indent="      ")
    return lines


def _ceiling(ceiling: Ceiling) -> list[str]:
    lines = [f"  {ceiling.resource:<27} {_carried(ceiling)}"]
    lines += wrap(ceiling.reason, WIDTH, initial_indent="    ", subsequent_indent="    ")
    lines += wrap(ceiling.sum, WIDTH, initial_indent="      ", subsequent_indent="        ")
    return lines


def _advice(item: Advice) -> list[str]:
    lines = wrap(
        f"{item.topic}: {item.problem}", WIDTH, initial_indent="  ", subsequent_indent="    "
    )
    lines += [f"    {command}" for command in item.commands]
    lines += wrap(f"gain: {item.gain}", WIDTH, initial_indent="    ", subsequent_indent="      ")
    return lines


def _carried(ceiling: Ceiling) -> str:
    if ceiling.rate is None or ceiling.responses is None:
        return "no limit known"
    return f"{rate(ceiling.rate)}, {count(ceiling.responses)} answers a second"


def _times(first: Ceiling, second: Ceiling) -> str:
    if not first.rate or second.rate is None:
        return ""
    return f", {significant(second.rate / first.rate)} times that"
