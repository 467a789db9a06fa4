"""Looks at files of a remote that many wait for at once."""

import collections
import time

from cove_provider import Failed
from cove_rclone_together import Together


class Looks:
    """Looks at many files of one folder together, each begun after whoever waits for it came."""

    # With fewer paths each is looked at by itself.
    FEWEST = 3
    # Of a larger folder, too, and for so long nobody asks again how large it is.
    LARGEST = 2000
    MEMORY = 600

    def __init__(self, stat, listing):
        self.stat, self.listing = stat, listing
        self.together = Together(self.carry_out)
        self.large = {}

    def look(self, path):
        """What is at a path now; nothing where there is none."""
        return self.together.ask(path, lambda: self.stat(path))

    def is_large(self, folder):
        return time.monotonic() < self.large.get(folder, 0)

    def listed(self, folder, paths):
        """What a listing says of paths; of a name that several items have it says nothing."""
        items = self.listing(folder)
        if len(items) > self.LARGEST:
            if len(self.large) > 1000:
                self.large.clear()
            self.large[folder] = time.monotonic() + self.MEMORY
            return {}
        count = collections.Counter(item["name"] for item in items)
        names = {item["name"]: item for item in items if count[item["name"]] == 1}
        return {path: names[name] for path in paths if (name := path.rpartition("/")[2]) in names}

    def carry_out(self, folder, paths, free):
        """One look for all who wait; where it finds out nothing of a path, that one is looked at by itself."""
        if len(paths) < self.FEWEST or self.is_large(folder):
            return {}
        try:
            return self.listed(folder, paths)
        except Failed:
            return {}
