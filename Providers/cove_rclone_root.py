"""The folder of a remote that is mounted, known from another one that takes its place, as the empty one of a disk that is away."""

import os
import re
import secrets
import sys
import tempfile

from cove_provider import Failed, is_reserved

# The name of the file by which a folder is known; Cove shows none that begins so.
MARK = ".cove-source-"
WORDS = "Cove knows this folder by this file, and takes one without it for another folder.\n"


# Remotes that have what other ones have, which these settings name.
WRAPPERS = {"alias", "cache", "chunker", "combine", "compress", "crypt", "hasher", "union"}
SETTINGS = ("remote", "upstreams")


def is_on_disk(daemon, remote, depth=0):
    """True for a folder of this machine, which may be on a disk that is away, also behind other remotes."""
    if ":" not in remote or remote[:1] in "/.":
        return True
    name = remote.partition(":")[0].partition(",")[0]
    if not name:
        return re.match(r":local[,:]", remote) is not None
    words = daemon.call("config/get", name=name)
    if words.get("type") == "local":
        return True
    if words.get("type") not in WRAPPERS or depth > 8:
        return False
    below = [word for setting in SETTINGS for word in str(words.get(setting, "")).split()]
    # Those of `combine` have a name for each before it.
    below = [word.partition("=")[2] if words["type"] == "combine" else word for word in below]
    return any(is_on_disk(daemon, word, depth + 1) for word in below if word)


class Root:
    """Looks whether the folder that is mounted is there: it has the mark that was found or left in it at first.

    `daemon` talks to rclone, `remote` is the folder, `state` a folder of this account's that lasts, or none: then there is no mark.
    """

    def __init__(self, daemon, remote, state):
        self.daemon, self.remote = daemon, remote
        self.note = os.path.join(state, "source-mark") if state else None
        self.mark = self.known()

    def known(self):
        if not self.note:
            return None
        try:
            with open(self.note, encoding="ascii") as file:
                word = file.read(100).strip()
        except (OSError, ValueError):
            return None
        return word if re.fullmatch(re.escape(MARK) + "[0-9a-f]{16}", word) else None

    def meet(self, entries, spool, is_known, is_fixed):
        """Fails where the folder is another one than before; one that is met for the first time gets a mark.

        Of an account that was used before without a mark an empty folder gets none: it may be that of a disk that is away. Nor does
        one in which nothing may be changed.
        """
        if self.mark:
            return self.require_among(entries)
        if not self.note or is_known and all(is_reserved(entry["Name"]) for entry in entries):
            return
        found = sorted(name for entry in entries if re.fullmatch(re.escape(MARK) + "[0-9a-f]{16}", name := entry["Name"]))
        mark = found[0] if found else MARK + secrets.token_hex(8)
        if not found and is_fixed:
            return
        if not found:
            try:
                self.leave(mark, spool)
            except Failed as error:
                sys.stderr.write(f"{self.remote}: it gets no mark by which it is known again: {error}\n")
                return
        with open(self.note + ".new", "w", encoding="ascii") as file:
            file.write(mark + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.note + ".new", self.note)
        self.mark = mark

    def leave(self, mark, spool):
        descriptor, file = tempfile.mkstemp(dir=spool)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as words:
                words.write(WORDS)
            self.daemon.upload(file, self.remote, mark)
        finally:
            os.unlink(file)

    def require_among(self, entries):
        """Fails where the entries of the folder are those of another one."""
        if self.mark and all(entry["Name"] != self.mark for entry in entries):
            raise self.missing()

    def require_mark(self):
        """Fails where another folder is in the place of one that has a mark."""
        if self.mark and not self.daemon.call("operations/stat", fs=self.remote, remote=self.mark).get("item"):
            raise self.missing()

    def require(self):
        """Fails where the folder is not there: rclone would make another one."""
        if self.mark:
            return self.require_mark()
        try:
            options = {"dirsOnly": True, "noModTime": True, "noMimeType": True}
            self.daemon.call("operations/list", fs=self.remote, remote="", opt=options)
        except Failed as error:
            if error.kind == "noSuchItem":
                raise Failed("serverUnreachable", f"{self.remote}: it is not there")
            raise

    def missing(self):
        folder = f"{self.remote}{'' if self.remote[-1] in ':/' else '/'}"
        return Failed(
            "serverUnreachable",
            f"{self.remote}: it is not the folder that was mounted before, for {self.mark} is not in it; mount the disk that has it, "
            f"or, if it is the folder, make that file again: rclone touch {folder}{self.mark}",
        )
