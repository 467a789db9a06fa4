"""Files of a remote that are aside for the moment in which others take their names."""

import threading
import time

from cove_provider import Failed
from cove_rclone_names import joined, underway

# So old, in seconds, may a listing be that says that nothing is aside, and so much older than it took.
LIFE = 2
SHARE = 4


class Asides:
    """Shows what is being replaced under its name, as long as nothing else has it: no device takes it for deleted then.

    `listing(folder)` lists a folder as rclone does.
    """

    def __init__(self, listing):
        self.listing = listing
        self.lock = threading.Lock()
        self.listed = {}

    @staticmethod
    def shown(directory, entries):
        """What is aside in a folder of these entries, under the names that nothing else has."""
        taken = {entry["Name"] for entry in entries}
        found = {}
        for entry in entries:
            former = underway(entry["Name"])
            if former and former not in taken and not entry.get("IsDir"):
                found[former] = {**entry, "Name": former, "Path": joined(directory, former)}
        return found

    def find(self, directory, name):
        """What is aside of a name that was not found just now; nothing where nothing is."""
        with self.lock:
            end, taken, found = self.listed.get(directory, (0, set(), {}))
        # A listing in which the name is taken is older than its going.
        if time.monotonic() > end or name in taken:
            since = time.monotonic()
            try:
                entries = self.listing(directory)
            except Failed as error:
                if error.kind != "noSuchItem":
                    raise
                entries = []
            taken, found = {entry["Name"] for entry in entries}, self.shown(directory, entries)
            # Many names of a large folder are looked for with few listings of it.
            now = time.monotonic()
            with self.lock:
                self.listed = {folder: known for folder, known in self.listed.items() if known[0] >= now}
                self.listed[directory] = now + LIFE + SHARE * (now - since), taken, found
            # The other one may have its name by now.
            for entry in entries:
                if entry["Name"] == name:
                    return entry
        return found.get(name)
