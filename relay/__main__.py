"""
The `relay` command, and `python -m relay`.

Only a door: the base of the distribution, which an executor's tests may have installed
alone, lacks what the command line is made of, and shall say so.
"""

import sys


def main() -> None:
    """Run the command line, or tell what it needs."""
    try:
        from relay.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"", "relay"}:
            raise
        sys.stderr.write(
            "relay: this command needs the server extra:"
            " pip install 'relay-control-plane[server]'\n"
        )
        sys.exit(1)
    run()


if __name__ == "__main__":
    main()
