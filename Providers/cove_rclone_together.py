"""What many calls ask of one folder at the same time, done together."""

import threading
import time


class Round:
    """What is done together, once: for which paths, and what came of it."""

    def __init__(self):
        # One for each who takes part, so that some may be there twice.
        self.paths, self.found, self.start = [], None, None


class Together:
    """Does what is asked of one folder in rounds, each begun after all who take part in it came.

    `work(folder, paths, free)` does a round of several paths, and returns what it has of them, by path; after `free()` the next
    round may begin. Nobody waits for one that takes long: who comes later goes alone at once.
    """

    # A round may be so old, in seconds, for others to wait for its end, and for its own to wait for what it finds.
    PATIENCE = 1
    LIMIT = 6

    def __init__(self, work):
        self.work = work
        self.changed = threading.Condition()
        # The round of each folder that is underway, and the one that gathers.
        self.busy, self.waiting = {}, {}

    def ask(self, path, alone, use=lambda found: found):
        """What `use` makes of what a round has for the path; what `alone` returns for whoever comes alone, or where it has nothing."""
        folder = path.rpartition("/")[0]
        own = self.begin(folder, path)
        if own is None:
            return alone()
        if own.found is None:
            found = {}
            try:
                if len(own.paths) == 1:
                    return alone()
                found = self.work(folder, set(own.paths), lambda: self.free(folder, own))
            finally:
                self.end(folder, own, found)
        return use(own.found[path]) if path in own.found else alone()

    def begin(self, folder, path):
        """The path's round: one to be done, or one that is over; nothing where that would be waited for too long."""
        with self.changed:
            own = self.waiting.setdefault(folder, Round())
            own.paths.append(path)
            while folder in self.busy and own.start is None:
                if not self.wait(self.busy[folder].start + self.PATIENCE):
                    self.leave(folder, own, path)
                    return None
            if own.start is None:
                own.start = time.monotonic()
                self.busy[folder] = self.waiting.pop(folder)
                return own
            while own.found is None:
                if not self.wait(own.start + self.LIMIT):
                    return None
            return own

    def wait(self, deadline):
        """Waits for a change; false once it is too late."""
        left = deadline - time.monotonic()
        if left > 0:
            self.changed.wait(left)
        return left > 0

    def leave(self, folder, own, path):
        own.paths.remove(path)
        if not own.paths:
            del self.waiting[folder]

    def free(self, folder, own):
        with self.changed:
            if self.busy.get(folder) is own:
                del self.busy[folder]
                self.changed.notify_all()

    def end(self, folder, own, found):
        with self.changed:
            own.found = found
            self.free(folder, own)
            self.changed.notify_all()
