"""Looks at files of a remote that many wait for at once."""

import collections
import threading
import time

from cove_provider import Failed


class Looks:
    """Looks at many files of one folder together, each begun after whoever waits for it came."""

    # With fewer paths each is looked at by itself.
    FEWEST = 3
    # Of a larger folder, too, and for so long nobody asks again how large it is.
    LARGEST = 2000
    MEMORY = 600

    def __init__(self, stat, listing):
        self.stat, self.listing = stat, listing
        self.changed = threading.Condition()
        self.busy, self.waiting, self.large = set(), {}, {}

    def look(self, path):
        """What is at a path now; nothing where there is none."""
        folder = path.rpartition("/")[0]
        with self.changed:
            if folder in self.busy:
                look = self.waiting.setdefault(folder, {"paths": set(), "found": None, "is_taken": False})
                look["paths"].add(path)
                while folder in self.busy and not look["is_taken"]:
                    self.changed.wait()
                is_first = not look["is_taken"]
                if is_first:
                    look["is_taken"] = True
                    del self.waiting[folder]
            else:
                look, is_first = {"paths": {path}, "found": None, "is_taken": True}, True
            if is_first:
                self.busy.add(folder)
            else:
                while look["found"] is None:
                    self.changed.wait()
        if is_first:
            self.carry_out(folder, look)
        if path not in look["found"]:
            return self.stat(path)
        found = look["found"][path]
        if isinstance(found, Failed):
            raise found
        return found

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

    def carry_out(self, folder, look):
        """One look for all who wait; where it finds out nothing of a path, that one is looked at by itself."""
        found = {}
        try:
            if len(look["paths"]) == 1:
                path = min(look["paths"])
                try:
                    found = {path: self.stat(path)}
                except Failed as error:
                    found = {path: error}
            elif len(look["paths"]) >= self.FEWEST and time.monotonic() >= self.large.get(folder, 0):
                found = self.listed(folder, look["paths"])
        except Failed:
            pass
        finally:
            with self.changed:
                look["found"] = found
                self.busy.discard(folder)
                self.changed.notify_all()
