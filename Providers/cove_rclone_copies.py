"""Small files of a remote that are read at the same time, copied by rclone in one call."""

import os
import re
import shutil
import tempfile
import time

from cove_provider import Failed
from cove_rclone_together import Together


class Copies:
    """Reads small files of one folder together: with a look at it for all, in place of one for each.

    `copy(paths, folder, seconds)` makes rclone copy files of the remote into a folder of this disk, and `looks` says afterwards which
    versions the remote has. Whoever wants such a version knew it before the copy began, so that the bytes are of it. What did not
    arrive is read by itself.
    """

    # Larger files, in bytes, are read by themselves.
    LARGEST = 256 * 1024
    # Fewer files are, too: a copy also lists the folders above, one call for each.
    FEWEST = 4
    # A copy ends after so many seconds, with what has arrived: the line is slow, or one file is waited for. For a while there is no
    # other one then.
    LIMIT = 4
    REST = 60
    # In rules of rclone's these make it look into other folders too, and these it keeps on a disk as other ones.
    ODD = re.compile("[{}\\x00-\\x1f\\x7f\\u201b\\u2400-\\u2426]")

    def __init__(self, copy, looks, spool):
        self.copy, self.looks, self.spool = copy, looks, spool
        self.together = Together(self.carry_out)
        self.rest = 0

    def read(self, path, alone, use):
        """What `use` makes of an item and all its bytes, or what `alone` returns."""
        if self.ODD.search(path) or ".." in path.split("/"):
            return alone()
        return self.together.ask(path, alone, use)

    def carry_out(self, folder, paths, free):
        start = time.monotonic()
        above = list(folders_above(folder))
        if len(paths) < self.FEWEST + len(above) or start < self.rest or any(map(self.looks.is_large, [folder, *above])):
            return {}
        place = None
        try:
            place = tempfile.mkdtemp(prefix="copies-", dir=self.spool)
            try:
                self.copy(paths, place, self.LIMIT)
            except Failed:
                # Those that arrived are there.
                pass
            free()
            if time.monotonic() - start >= self.LIMIT:
                self.rest = time.monotonic() + self.REST
            # After all bytes were read: what has its version still had it while they were.
            items = self.looks.listed(folder, paths)
            return {path: (item, data) for path, item in items.items() if (data := self.bytes(place, path, item)) is not None}
        except (Failed, OSError):
            return {}
        finally:
            if place:
                shutil.rmtree(place, ignore_errors=True)

    def bytes(self, place, path, item):
        """The bytes of a file that arrived whole; nothing of another one."""
        if item["kind"] != "file" or not 0 < item["size"] <= self.LARGEST:
            return None
        try:
            # rclone can be told to make links of files.
            with os.fdopen(os.open(os.path.join(place, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                data = file.read(self.LARGEST + 1)
        except (OSError, ValueError):
            return None
        return data if len(data) == item["size"] else None


def folders_above(folder):
    """The folders that a folder is in, the root last."""
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def rule(path):
    """rclone's rule for one path, in which some letters mean others."""
    return "/" + re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
