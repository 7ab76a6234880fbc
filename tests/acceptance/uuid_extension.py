"""
A stand-in for PostgreSQL's `uuid-ossp`, which the test servers do not carry.

Python SDKs before 3.0 create that extension in their first migration and use nothing of
it. PostgreSQL from 18 on finds extensions in directories that a database names, so the
stand-in stays out of the installation.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

CONTROL = """\
default_version = '1.1'
relocatable = true
trusted = true
"""
SCRIPT = """\
CREATE FUNCTION uuid_generate_v4() RETURNS uuid
    LANGUAGE sql VOLATILE AS 'SELECT gen_random_uuid()';
"""


@contextmanager
def uuid_extension(database_url: str) -> Iterator[None]:
    """Let the database at that address create the extension `uuid-ossp`."""
    # Not below pytest's directories: the server may run as another user.
    directory = Path(tempfile.mkdtemp(prefix="relay-extension-"))
    try:
        extension = directory / "extension"
        extension.mkdir()
        (extension / "uuid-ossp.control").write_text(CONTROL)
        (extension / "uuid-ossp--1.1.sql").write_text(SCRIPT)
        for path in (directory, extension, *extension.iterdir()):
            path.chmod(0o755)
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET extension_control_path = {}").format(
                    sql.Identifier(connection.info.dbname),
                    sql.Literal(f"{directory}:$system"),
                )
            )
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)
