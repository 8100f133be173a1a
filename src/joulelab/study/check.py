# SPDX-License-Identifier: Apache-2.0
"""What one trial is asked to do, checked in full before it starts: for study files and `joulelab run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from joulelab.errors import InputError, SensorError, unknown
from joulelab.hardware import DEVICES
from joulelab.hardware.find import find
from joulelab.knobs import KNOBS, target
from joulelab.knobs.knob import Knob, Site
from joulelab.knobs.sharing import check_shared
from joulelab.launch import LAUNCHERS
from joulelab.launch.launcher import Launcher
from joulelab.records import plugin
from joulelab.records.parameter import Parameter, Scalar
from joulelab.records.trial import TrialSpec
from joulelab.workloads import RECIPES, WORKLOADS
from joulelab.workloads.recipe import Recipe

Place = Callable[[str, str], str]  # from table and key to the words that open an error: "demo.toml:7: [grid]"

REPEATS = Parameter(
    name="repeats", kind="int", default=1, minimum=1, help="measured passes from fresh weights"
)
WARMUP = Parameter(
    name="warmup", kind="int", default=0, minimum=0, help="passes before them, left out of every mean"
)
SEED = Parameter(
    name="seed", kind="int", default=0, minimum=0, maximum=2**53, help="of the first measured pass"
)


def nowhere(table: str, key: str) -> str:
    """For values that come from flags or code, where the name of the value says enough."""
    del table, key
    return ""


def at(where: str) -> str:
    """The place as an error opens with it; nothing where there is none."""
    return f"{where}: " if where else ""


def load_part(registry: Mapping[str, str], name: str, *, what: str, where: str = "") -> Any:
    """What `plugin.load` gives, and its errors with the place of the name in front."""
    try:
        return plugin.load(registry, name, what=what, where=where)
    except InputError as error:
        if not where or error.message.startswith(where):
            raise
        raise InputError(f"{where}: {error.message}", cure=error.cure) from error


def launcher_of(name: str, *, where: str = "") -> type[Launcher]:
    """The class of a launcher by name."""
    found = load_part(LAUNCHERS, name, what="launcher", where=where)
    if not (isinstance(found, type) and issubclass(found, Launcher)):
        raise InputError(
            f"{at(where)}'{name}' is not a launcher", cure="derive it from launch.launcher.Launcher"
        )
    return found


def recipe_of(workload: str, *, where: str = "") -> Recipe:
    """The recipe of a workload by name; of a plug-in its attribute `recipe`."""
    if workload in RECIPES:
        return RECIPES[workload]
    # A misspelt name ends here, with the legal ones.
    target = load_part(WORKLOADS, workload, what="workload", where=where)
    recipe = getattr(target, "recipe", None)
    if not isinstance(recipe, Recipe):
        raise InputError(
            f"{at(where)}workload '{workload}' does not say what it may be given",
            cure="give the class an attribute `recipe`, a joulelab.workloads.recipe.Recipe",
        )
    return recipe


def knob_of(name: str, recipe: Recipe, *, where: str = "") -> Knob:
    """The knob by name, if this recipe listens to it; a plug-in knob may also act by itself."""
    listens = recipe.listens()
    if name not in listens and name in KNOBS:
        raise InputError(
            f"{at(where)}this workload does not listen to the knob '{name}'",
            cure=f"legal: {', '.join(sorted(listens)) or 'none'}",
        )
    if name not in listens and ":" not in name:
        raise unknown("knob", name, listens, where=where)
    target = load_part(KNOBS, name, what="knob", where=where)
    if not (isinstance(target, type) and issubclass(target, Knob)):
        raise InputError(f"{at(where)}'{name}' is not a knob", cure="derive it from knobs.knob.Knob")
    if name not in listens and target.applied is Knob.applied:
        raise InputError(
            f"{at(where)}the knob '{name}' would change nothing: this workload does not read it, and it does "
            "not act by itself",
            cure="add it to the workload's recipe, or give it a method `applied`",
        )
    return target()


def check_knob(name: str, recipe: Recipe, value: object, *, where: str = "") -> Scalar:
    """`value` as the knob takes it, and as this recipe can answer it."""
    checked = knob_of(name, recipe, where=where).check(value, where=where)
    if why := recipe.refused.get(name, {}).get(str(checked)):
        raise InputError(
            f"{at(where)}{name} = '{checked}': {why}", cure=f"{name} = '{recipe.listens()[name]}'"
        )
    if name == "target" and recipe.figures:
        asked = target.parse(str(checked))
        if asked is not None and asked.figure not in recipe.figures:
            raise unknown("figure in the target", asked.figure, recipe.figures, where=where)
    return checked


def check_trial(
    workload: str,
    *,
    parameters: Mapping[str, object],
    knobs: Mapping[str, object],
    place: Place = nowhere,
) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    """Parameters and knobs as the trial will see them: the recipe's own values where none was given.

    They are filled in so that a record says everything, and a later change of a default is another trial.
    """
    recipe = recipe_of(workload, where=place("", "workload"))
    full_parameters = {p.name: p.default for p in recipe.parameters if p.default is not None}
    for name, value in parameters.items():
        where = place("parameters", name)
        full_parameters[name] = recipe.parameter(name, where=where).check(value, where=where)
    full_knobs = dict(recipe.knobs)
    for name, value in knobs.items():
        where = place("knobs", name)
        full_knobs[name] = check_knob(name, recipe, value, where=where)
    for parameter in recipe.parameters:
        if parameter.name not in full_parameters:
            raise InputError(
                f"{at(place('parameters', parameter.name))}"
                f"workload '{workload}': parameter '{parameter.name}' has no default and was not given",
                cure=f"give it: {parameter.help}; legal: {parameter.legal()}",
            )
    return full_parameters, full_knobs


def check_devices(names: Sequence[object], *, where: str = "") -> tuple[str, ...]:
    """Names of devices as `hardware.find` takes them: vendor, vendor:argument, or package.module:Class."""
    checked = []
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(
                f"{at(where)}devices = {name!r} is not legal",
                cure=f"legal: a list of {', '.join(DEVICES)}, each with ':argument' where it takes one",
            )
        vendor = name.partition(":")[0]
        if vendor not in DEVICES:
            if "." not in vendor:
                raise unknown("device", vendor, DEVICES, where=where)
            # An argument may follow the class, after one more colon.
            load_part(DEVICES, ":".join(name.split(":")[:2]), what="device", where=where)
        checked.append(name)
    return tuple(checked)


def check_here(
    knobs: Mapping[str, Sequence[Scalar]],
    *,
    workload: str,
    devices: Sequence[str],
    place: Place = nowhere,
) -> None:
    """Refuse what the devices of this machine cannot do, where this is the machine that trials run on."""
    _check_devices_here(devices, where=place("", "devices"))
    recipe = recipe_of(workload)
    for name, values in knobs.items():
        where = place("knobs", name)
        knob = knob_of(name, recipe, where=where)
        knob.site = Site(devices=tuple(devices))
        for value in values:
            if refused := knob.refused_here(value):
                message, _, cure = refused.partition("\n")
                raise InputError(
                    f"{at(where)}{message}",
                    cure=cure.strip() or "see `joulelab caps`, or leave this setting out",
                )


def _check_devices_here(names: Sequence[str], *, where: str) -> None:
    """A meter that is asked for by name must be there: else every trial would find out, after loading."""
    if not names:
        return
    try:
        for device in find(names).devices:
            device.close()
    except (InputError, SensorError) as error:
        raise InputError(f"{at(where)}{error.message}", cure=error.cure) from error


def checked(spec: TrialSpec) -> TrialSpec:
    """A spec from Python code as a study would have written it, or an InputError."""
    parameters, knobs = check_trial(spec.workload, parameters=spec.parameters, knobs=spec.knobs)
    REPEATS.check(spec.repeats)
    WARMUP.check(spec.warmup)
    SEED.check(spec.seed)
    check_shared({**recipe_of(spec.workload).listens(), **knobs})
    return msgspec.structs.replace(
        spec, parameters=parameters, knobs=knobs, devices=check_devices(spec.devices)
    )


def trial_spec(
    workload: str,
    *,
    parameters: Mapping[str, object],
    knobs: Mapping[str, object],
    repeats: int = 1,
    warmup: int = 0,
    seed: int = 0,
    devices: Sequence[str] = (),
) -> TrialSpec:
    """One trial, checked; values may be text as it comes from a command line."""
    recipe = recipe_of(workload)
    given, asked = check_trial(
        workload,
        parameters={n: from_text(recipe.parameter(n), v) for n, v in parameters.items()},
        knobs={n: from_text(knob_of(n, recipe).parameter, v) for n, v in knobs.items()},
    )
    return checked(
        TrialSpec(
            workload=workload,
            parameters=given,
            knobs=asked,
            repeats=repeats,
            warmup=warmup,
            seed=seed,
            devices=tuple(devices),
        )
    )


def named_values(texts: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE as a command line has it, a pair each."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, pairs, strict=True):
        if not equals or not name:
            raise InputError(f"--set {text!r} is not NAME=VALUE", cure="for example --set dropout=0.1")
    return {name: value for name, _, value in pairs}


def parameters_by_name() -> dict[str, dict[str, Parameter]]:
    """The parameters of all workloads: each one's declarations by workload."""
    found: dict[str, dict[str, Parameter]] = {}
    for workload, recipe in RECIPES.items():
        for parameter in recipe.parameters:
            found.setdefault(parameter.name, {})[workload] = parameter
    return found


def from_text(parameter: Parameter, value: object) -> object:
    """`value` in the parameter's kind where its text reads so; else unchanged, to be refused."""
    if not isinstance(value, str) or parameter.kind == "str":
        return value
    if parameter.kind == "bool":
        return {"true": True, "false": False}.get(value.lower(), value)
    try:
        return int(value) if parameter.kind == "int" else float(value)
    except ValueError:
        return value
