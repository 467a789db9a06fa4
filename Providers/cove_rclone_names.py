"""Names of a remote: which ones cove-rclone gives for a moment, and which calls have one for themselves."""

import contextlib
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
# The folder in a remote's root where the pictures of its documents are.
PICTURES = ".cove-thumbnails"


def joined(directory, name):
    return f"{directory}/{name}" if directory else name


def parent(path):
    return path.rpartition("/")[0]


def aside(path):
    """A name beside a file's own that Cove shows nobody."""
    return joined(parent(path), f"{ASIDE}{int(time.time())}-{secrets.token_hex(4)}-{path.rpartition('/')[2]}")


def left(name, purpose, life):
    """What a name is the other name of, when it was given for a purpose and is older than a life; else nothing."""
    found = re.match(re.escape(purpose) + r"(\d+)-[0-9a-f]+-?(.*)$", name, re.DOTALL)
    return found.group(2) if found and time.time() - int(found.group(1)) > life else None


def underway(name):
    """What a name stands in for that was given to a file which another one is about to replace; else nothing."""
    found = re.match(re.escape(ASIDE) + r"\d+-[0-9a-f]+-(.+)$", name, re.DOTALL)
    return found.group(1) if found and left(name, ASIDE, ASIDE_TIME) is None else None


class Names:
    """The names that calls of this process change now: one that looks and then changes is the only one at it."""

    def __init__(self, are_folded):
        self.are_folded = are_folded
        self.changed = threading.Condition()
        self.busy = set()

    @contextlib.contextmanager
    def alone(self, call, *paths):
        paths = {path.casefold() if self.are_folded else path for path in paths}
        with self.changed:
            self.changed.wait_for(lambda: not self.busy & paths)
            self.busy |= paths
        try:
            # It may have waited for long.
            if call:
                call.check()
            yield
        finally:
            with self.changed:
                self.busy -= paths
                self.changed.notify_all()
