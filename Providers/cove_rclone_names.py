"""Names of a remote: which ones cove-rclone gives for a moment, and which calls have one for themselves."""

import contextlib
import hashlib
import re
import secrets
import threading
import time

# Names of uploads that have not arrived; Cove shows none that begin so.
UPLOAD = ".cove-upload-"
UPLOAD_LIFE = 7 * 86400
# Names of files that are being replaced; what a death leaves there is brought back by whoever lists the folder.
ASIDE = ".cove-replaced-"
ASIDE_TIME = 600
# Names of files that are being deleted, which tell of which version.
DELETED = ".cove-deleted-"


def joined(directory, name):
    return f"{directory}/{name}" if directory else name


def parent(path):
    return path.rpartition("/")[0]


def mark(version):
    """A version, as the name of a file tells it that is being deleted."""
    return hashlib.sha256(version.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def aside(path, purpose):
    """A name beside a file's own that Cove shows nobody; nothing where it would be too long."""
    name = f"{purpose}{int(time.time())}-{secrets.token_hex(4)}-{path.rpartition('/')[2]}"
    return joined(parent(path), name) if len(name.encode("utf-8", "surrogateescape")) <= 255 else None


def left(name, purpose, life):
    """What a name is the other name of, when it was given for a purpose and is older than a life; else nothing."""
    found = re.match(re.escape(purpose) + r"(\d+)-[0-9a-f]+-?(.*)$", name, re.DOTALL)
    return found.group(2) if found and time.time() - int(found.group(1)) > life else None


class Names:
    """The names that calls of this process change now: one that looks and then changes is the only one at it."""

    def __init__(self, is_case_insensitive):
        self.is_case_insensitive = is_case_insensitive
        self.changed = threading.Condition()
        self.busy = set()

    @contextlib.contextmanager
    def alone(self, call, *paths):
        paths = {path.casefold() if self.is_case_insensitive else path for path in paths}
        with self.changed:
            self.changed.wait_for(lambda: not self.busy & paths)
            self.busy |= paths
        try:
            # It may have waited for long.
            call.check()
            yield
        finally:
            with self.changed:
                self.busy -= paths
                self.changed.notify_all()
