"""How cove-rclone reads files: bytes are given when it is certain of which version they are."""

import http.client

from cove_provider import Failed, text
from cove_rclone_changes import UNSIZED
from cove_rclone_copies import Copies, rule

# Bytes that are held back until then.
BLOCK = 8 * 1024 * 1024


class Cut(Exception):
    """An answer of rclone's ended before the bytes that it was asked for."""

    def __init__(self, offset, why):
        super().__init__(str(why))
        self.offset = offset


class Reading:
    """The calls of a remote that read it."""

    def has_bytes_of(self, file, path, size):
        """True where the remote has the bytes of a file on this disk."""
        if size == 0:
            return True
        response, connection = self.daemon.open(self.remote, path, 0, size)
        try:
            with open(file, "rb") as own:
                while block := own.read(BLOCK):
                    if response.read(len(block)) != block:
                        return False
            return True
        except (OSError, http.client.HTTPException) as error:
            raise Failed("failed", f"rclone sent a part only: {error}")
        finally:
            connection.close()

    def copy_here(self, paths, place, seconds):
        """Copies files of the remote to a folder of this disk, below which they have their paths, as many as there is time for."""
        chosen = {"IncludeRule": [rule(path) for path in paths], "MaxSize": Copies.LARGEST}
        words = {"srcFs": self.remote, "dstFs": place, "_filter": chosen, "_config": {"Transfers": 16}}
        self.daemon.call_for(seconds, "sync/copy", **words)

    def fetch(self, parameters, call):
        path, version = text(parameters["item"]["path"]), text(parameters["version"])
        start, end = parameters["start"], parameters["end"]

        def give(found):
            item, data = found
            if item.get("contentVersion") != version:
                raise Failed("versionNoLongerAvailable")
            return {} if call.send(0, data[:end]) == end else {"atEnd": True}

        if start == 0 and 0 < end <= Copies.LARGEST and not version.startswith(UNSIZED):
            return self.copies.read(path, lambda: self.fetch_alone(path, version, start, end, call), give)
        return self.fetch_alone(path, version, start, end, call)

    def fetch_alone(self, path, version, start, end, call):
        offset = start
        while offset < end:
            former = offset
            try:
                offset, is_end = self.fetch_part(path, version, offset, end, call)
            except Cut as cut:
                offset = cut.offset
                # With the remote there, what can't be read here is this file: its next part, if any came.
                self.require_version(path, version)
                if offset == former:
                    raise Failed("failed", f"rclone can't read it from byte {offset} on: {cut}")
            else:
                if is_end:
                    return {"atEnd": True}
        if start >= end:
            self.require_version(path, version)
        return {}

    def fetch_part(self, path, version, start, end, call):
        """Gives bytes up to where an answer ends: where that is, and whether the file ends there."""
        offset = start
        try:
            response, connection = self.daemon.open(self.remote, path, start, end)
        except Failed as error:
            found = self.stat(path)
            if found is None or found["kind"] != "file":
                raise self.gone()
            if found["contentVersion"] != version:
                raise Failed("versionNoLongerAvailable")
            if start >= found["size"]:
                return offset, True
            # rclone says that a file is not there whatever kept it from reading that.
            raise Failed("failed", f"rclone can't read it: {error}") if error.kind == "noSuchItem" else error
        try:
            # A server that gives no ranges sends the file from its beginning.
            skip = start if response.status == 200 else 0
            while skip > 0:
                piece = response.read(min(BLOCK, skip))
                call.check()
                call.say_alive()
                if not piece:
                    raise Failed("versionNoLongerAvailable")
                skip -= len(piece)
            while offset < end:
                block = response.read(min(BLOCK, end - offset))
                if not block:
                    break
                # Some servers answer a range behind the end with the whole file.
                size = self.require_version(path, version)["size"]
                if offset >= size:
                    return offset, True
                offset = call.send(offset, block[: size - offset])
        except (OSError, http.client.HTTPException) as error:
            raise Cut(offset, error)
        finally:
            if offset >= end and response.isclosed() and response.status == 206:
                self.daemon.keep(connection)
            else:
                connection.close()
        # What ends before the file does was cut off.
        if offset < end and offset < self.require_version(path, version)["size"]:
            raise Cut(offset, "it sent a part only")
        return offset, offset < end

    def require_version(self, path, version):
        """What was read before this was of the version, if it is still the current one."""
        found = self.looks.look(path)
        if found is None:
            raise self.gone()
        if found.get("contentVersion") != version:
            raise Failed("versionNoLongerAvailable")
        return found
