"""The command line, one file a command. Nothing heavy loads before a command needs it."""


def main() -> None:
    """Run ``exactformer``."""
    from exactformer.cli.app import run

    run()
