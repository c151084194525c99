"""What a person wants to know of a divergence: the call, both lines, the cause, and a script that shows it alone."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path

from ms_port.verify.forward import Findings
from ms_port.verify.observed import Observed
from ms_port.verify.pinpoint import pinpoint
from ms_port.verify.repro import write_repro
from ms_port.verify.session import Mode, Session
from ms_port.verify.verdict import Divergence


def explain(
    session: Session, mode: Mode, first: Divergence, findings: Findings, seen: Observed, folder: Path, timeout: float
) -> Divergence:
    """The divergence with all that can be told of it; as it was where that fails, with the reason in ``why``.

    Args:
        folder: for further runs of the port.
    """
    wrong = findings.first_wrong()
    note = wrong[2].note if wrong else ""
    try:
        built = seen.outcome.result.get("built", {})
        found, scene = pinpoint(
            session, mode, first, note, built, seen.folder / mode.name, folder / f"calls-{mode.name}", timeout
        )
        if scene is not None and scene.guilty is not None:
            found = replace(found, repro=write_repro(scene))
    except Exception as error:  # a verdict must not be lost because it could not be explained
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"
        return replace(first, why=f"{first.why} (the call could not be told: {reason})")
    return found
