"""Reading the settings of this process."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from relay.errors import SettingsError
from relay.settings.model import RelaySettings, list_variables
from relay.settings.sources import (
    CURRENT_FILE,
    DEFAULT_FILE,
    FILE_VARIABLE,
    check_environment,
)
from relay.settings.wording import explain


def load_settings(
    flags: Mapping[str, object] | None = None, *, file: Path | None = None
) -> RelaySettings:
    """
    The settings this process runs with.

    Args:
        flags: values of the command line by field name; a missing name was not given.
        file: the TOML file; `None` takes the one that `RELAY_CONFIG` names, else
            `relay.toml` in the working directory if there is one.

    Raises:
        SettingsError: one line for each thing that is wrong, without any value that
            could be a secret.
    """
    variables = list_variables()
    check_environment(os.environ, variables)
    if file is None and (named := os.environ.get(FILE_VARIABLE)):
        file = Path(named)
    if file is not None and not file.is_file():
        raise SettingsError(f"settings file {file} does not exist")
    if file is None and os.path.lexists(DEFAULT_FILE) and not DEFAULT_FILE.is_file():
        raise SettingsError(f"{DEFAULT_FILE} is no file")

    values: dict[str, Any] = dict(flags or {})
    token = CURRENT_FILE.set(file or DEFAULT_FILE)
    try:
        return RelaySettings(**values)
    except ValidationError as error:
        raise SettingsError(
            "\n".join(explain(detail, variables) for detail in error.errors())
        ) from None
    except ValueError as error:
        raise SettingsError(f"{file or DEFAULT_FILE}: {error}") from None
    except OSError as error:
        raise SettingsError(f"{file or DEFAULT_FILE}: {error.strerror}") from None
    finally:
        CURRENT_FILE.reset(token)
