"""Which application a row belongs to, where several share a system database."""

from relay.errors import NotFoundError
from relay.records import ApplicationRecord


def is_foreign(application_name: str | None, application: ApplicationRecord) -> bool:
    """
    Whether a row names another application than `application`.

    Older SDKs name none: their rows count as one's own.
    """
    return bool(application_name) and application_name != application.ref.name


def check_owner(
    application_name: str | None, application: ApplicationRecord, kind: str, name: str
) -> None:
    """
    Refuse what belongs to another application, as if it did not exist.

    Args:
        application_name: what the row says of itself.
        kind, name: what it is, for the error.

    Raises:
        NotFoundError: it is another application's.
    """
    if is_foreign(application_name, application):
        raise NotFoundError(kind, name)
