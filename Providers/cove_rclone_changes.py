"""What cove-rclone changes in a remote: each change looks first, and puts in its place at once what arrived beside it."""

import collections
import datetime
import json
import os
import secrets
import sys
import tempfile
import time

from cove_provider import Failed, is_reserved, text
from cove_rclone_daemon import failure

# rclone's precision of a remote that keeps no dates.
NO_DATES = 3153600000000000000
# Names of uploads that have not arrived; Cove shows none that begin so.
UPLOAD = ".cove-upload-"
UPLOAD_LIFE = 7 * 86400
# Names of files that are being replaced; what a death leaves there is brought back by whoever lists the folder.
ASIDE = ".cove-replaced-"
ASIDE_TIME = 600
# What the versions of files begin with that have no size before they are exported.
UNSIZED = "unsized"
# How long others are told of a folder's move that is not going on.
MOVE_TIME = 3600
# So old may be what is known of names that several items have.
DOUBLES_TIME = 10


def joined(directory, name):
    return f"{directory}/{name}" if directory else name


def parent(path):
    return path.rpartition("/")[0]


class Changes:
    """The calls of a remote that change it; how it looks is with the remote itself."""

    def require_free(self, path):
        taken = self.stat(path)
        if taken is not None:
            raise Failed("filenameCollision", item=taken)

    def require_single(self, path):
        """Fails where several items have a name: rclone goes by names, and would change any one of them."""
        if "DuplicateFiles" not in self.can or not path:
            return
        folder, name = parent(path), path.rpartition("/")[2]
        since, doubles = self.doubles.get(folder, (0, ()))
        if not since or time.monotonic() - since > DOUBLES_TIME:
            count = collections.Counter(entry["Name"] for entry in self.entries(folder))
            doubles = {name for name in count if count[name] > 1}
            if len(self.doubles) > 1000:
                self.doubles.clear()
            self.doubles[folder] = time.monotonic(), doubles
        if name in doubles:
            command = f"rclone dedupe rename {self.place(folder)}"
            raise Failed("notPermitted", f"several items have this name; `{command}` gives them others")

    def require_base(self, parameters):
        """The path and the item, if it is as whoever changes it believes."""
        path, found = self.wanted(parameters["item"])
        self.require_single(path)
        if "version" not in parameters:
            return path, found
        base = text(parameters["version"])
        if base == "" and found["kind"] != "directory":
            raise Failed("conflict", item=found)
        if base != "" and found.get("contentVersion") != base:
            raise Failed("conflict", item=found)
        return path, found

    def target(self, parameters):
        """The path that something is to get."""
        name = text(parameters["name"])
        if is_reserved(name):
            raise Failed("notPermitted", "Cove keeps this name for itself")
        # rclone writes these as others where a remote can't have them, and reads those others as these.
        if any(letter < " " or letter in "\x7f\u201b" or "\u2400" <= letter <= "\u2426" for letter in name):
            raise Failed("unsupported", "rclone can't tell this name from another one")
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise Failed("unsupported", "rclone keeps names in UTF-8 only")
        return joined(text(parameters["directory"]["path"]), name)

    def create(self, parameters, call):
        directory, path = text(parameters["directory"]["path"]), self.target(parameters)
        self.require_free(path)
        if parameters["kind"] == "directory":
            self.require_directory(directory)
            self.daemon.call("operations/mkdir", fs=self.remote, remote=path)
        elif parameters["kind"] == "file":
            self.require_directory(directory)
            self.upload(path, parameters, call, lambda: self.require_free(path))
        else:
            raise Failed("unsupported", "rclone keeps no symbolic links")
        return {"item": self.arrived(path)}

    def require_directory(self, path):
        """rclone makes a folder that is not there, and Cove wants to hear of that."""
        if not path:
            return self.require_root()
        found = self.stat(path)
        # A folder in a bucket is there when something is in it.
        if found is None and "BucketBased" not in self.can or found is not None and found["kind"] != "directory":
            raise self.gone()

    def modify(self, parameters, call):
        path, found = self.require_base(parameters)
        if "size" in parameters:
            if found.get("contentVersion", "").startswith(UNSIZED):
                raise Failed("unsupported", "it is a document of the cloud's own, which is changed there")
            self.upload(path, parameters, call, lambda: self.require_base(parameters)[1])
        elif found["kind"] == "file":
            self.set_date(path, parameters.get("metadata") or {})
        return {"item": self.arrived(path)}

    def set_date(self, path, metadata):
        if "modified" not in metadata or self.precision >= NO_DATES:
            return
        seconds, rest = divmod(metadata["modified"], 10**9)
        date = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        answer = self.daemon.call(
            "core/command",
            command="touch",
            arg=["--no-create", f"--timestamp={date}.{rest:09d}", self.place(path)],
        )
        if answer.get("error"):
            raise failure(500, str(answer.get("result", "")).strip() or "rclone touch failed")

    def arrived(self, path):
        found = self.stat(path)
        if found is not None and found["name"] != path.rpartition("/")[2]:
            raise Failed("unsupported", f"the remote calls it {found['name']}")
        if found is None:
            raise Failed("failed", f"{path}: it is not there after it was sent")
        return found

    def upload(self, path, parameters, call, require):
        """Takes the content to this disk, and has rclone put it where it belongs, all of it at once."""
        descriptor, file = tempfile.mkstemp(dir=self.spool)
        try:
            with os.fdopen(descriptor, "wb") as spool:
                for piece in call.content():
                    spool.write(piece)
            if os.stat(file).st_size != parameters.get("size", 0):
                raise Failed("failed", "the content is not as long as it was said to be")
            date = (parameters.get("metadata") or {}).get("modified")
            replaced = require()
            if date is not None:
                os.utime(file, ns=(date, date))
            # Another content of the same date and length has to have another version.
            if replaced and not self.hash and os.stat(file).st_size == replaced["size"]:
                self.date_after(file, (replaced.get("metadata") or {}).get("modified"))
            self.put(file, path, require, call)
            # Where the remote dates it, and by whole seconds, another one has to come first.
            for _ in range(3):
                if self.hash or not replaced or self.arrived(path)["contentVersion"] != replaced["contentVersion"]:
                    break
                time.sleep(1)
                self.put(file, path, require, call)
        finally:
            os.unlink(file)

    def date_after(self, file, date):
        """Gives a file another date than the one that it replaces has."""
        step = max(self.precision, 1)
        now = os.stat(file).st_mtime_ns
        if date is not None and step < NO_DATES and now // step == date // step:
            os.utime(file, ns=(now + step, now + step))

    def put(self, file, path, require, call):
        source = {"srcFs": self.spool, "srcRemote": os.path.basename(file), "_config": {"IgnoreTimes": True}}
        if "Move" not in self.can or "BucketBased" in self.can:
            # What such a remote shows of an upload is all of it.
            self.daemon.call("operations/copyfile", dstFs=self.remote, dstRemote=path, **source)
            return
        place = joined(parent(path), f"{UPLOAD}{int(time.time())}-{secrets.token_hex(8)}")
        try:
            self.daemon.call("operations/copyfile", dstFs=self.remote, dstRemote=place, **source)
            call.check()
            replaced = require()
        except BaseException:
            self.drop(place)
            raise
        if not replaced:
            return self.bring(place, path, call)
        # rclone deletes what a move replaces, before it moves: it goes aside instead, and comes back if need be.
        name = path.rpartition("/")[2]
        aside = joined(parent(path), f"{ASIDE}{int(time.time())}-{secrets.token_hex(4)}-{name}")
        if len(aside.rpartition("/")[2].encode()) > 255:
            # There is no room for its name: rclone replaces it.
            try:
                return self.move_file(place, path)
            except BaseException:
                if self.stat(path) is not None:
                    self.drop(place)
                raise
        try:
            call.check()
            self.move_file(path, aside)
        except BaseException:
            self.drop(place)
            raise
        try:
            # It may be another one than was looked at a moment ago.
            moved = self.stat(aside)
            if moved is None or moved["contentVersion"] != replaced["contentVersion"]:
                raise Failed("conflict")
            self.bring(place, path, call)
        except BaseException:
            self.bring_back(aside, path)
            if self.stat(place) is not None:
                self.drop(place)
            raise
        self.drop(aside)

    def bring_back(self, aside, path):
        """Gives what was aside its name again, or one beside it where another item has that: nobody knows whose it is."""
        stem, dot, ending = path.rpartition(".")
        if not dot or "/" in ending or not stem or stem.endswith("/"):
            stem, dot, ending = path, "", ""
        target, count = path, 1
        while self.stat(target) is not None:
            target = f"{stem} (recovered{'' if count == 1 else f' {count}'}){dot}{ending}"
            count += 1
        self.move_file(aside, target)

    def bring(self, place, path, call):
        """Gives what has arrived its name, if nothing has it and it is still wanted; else it goes, the sender has it."""
        try:
            self.require_free(path)
            call.check()
            self.move_file(place, path)
        except BaseException:
            self.drop(place)
            raise

    def drop(self, path):
        try:
            self.daemon.call("operations/deletefile", fs=self.remote, remote=path)
        except Failed as error:
            sys.stderr.write(f"{path}: {error}\n")

    def move_file(self, path, target):
        self.daemon.call(
            "operations/movefile",
            srcFs=self.remote,
            srcRemote=path,
            dstFs=self.remote,
            dstRemote=target,
            _config={"IgnoreTimes": True},
        )

    def place(self, path):
        """A folder of the remote as rclone names it."""
        return f"{self.remote}{'' if self.remote[-1] in ':/' else '/'}{path}"

    def move(self, parameters, call):
        target = self.target(parameters)
        self.require_directory(parent(target))
        source = text(parameters["item"]["path"])
        if target.startswith(source + "/"):
            raise Failed("notPermitted", "a folder does not go into itself")
        if (source, target) in self.moves:
            # One that was cut off goes on, or has ended but for this note.
            if self.stat(source) is None:
                self.note_move(source, target, False)
            else:
                self.move_directory(source, target)
            return {"item": self.arrived(target)}
        path, found = self.require_base(parameters)
        taken = self.stat(target)
        is_same = "CaseInsensitive" in self.can and path.casefold() == target.casefold()
        if taken is not None and not is_same:
            raise Failed("filenameCollision", item=taken)
        if found["kind"] == "directory":
            self.move_directory(path, target)
        else:
            self.move_file(path, target)
        return {"item": self.arrived(target)}

    def move_directory(self, path, target):
        """Moves a folder; where that is done file by file, none is replaced, and what can't go stays."""
        is_at_once = "DirMove" in self.can
        if not is_at_once:
            self.note_move(path, target, True)
        self.daemon.call(
            "sync/move",
            srcFs=self.place(path),
            dstFs=self.place(target),
            createEmptySrcDirs=True,
            deleteEmptySrcDirs=True,
            _config={"IgnoreExisting": True},
        )
        if not is_at_once:
            # What is left of the folders goes, if it is empty.
            self.daemon.call("operations/rmdirs", fs=self.remote, remote=path)
            self.note_move(path, target, False)

    def movesUnderway(self, parameters, call):
        if "DirMove" in self.can:
            return {}
        # Nobody waits for ever for one that is not taken up again.
        oldest = time.monotonic() - MOVE_TIME
        with self.lock:
            moves = [move for move, since in self.moves.items() if since > oldest]
        return {"moves": [{"from": source, "to": target} for source, target in moves]}

    def note_move(self, source, target, begins):
        """Keeps which folders are on their way, so that a move that was cut off goes on."""
        with self.lock:
            self.moves.pop((source, target), None)
            if begins:
                self.moves[source, target] = time.monotonic()
            with open(self.moves_file + ".new", "w") as file:
                json.dump(list(self.moves), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self.moves_file + ".new", self.moves_file)

    def read_moves(self):
        try:
            with open(self.moves_file) as file:
                found = json.load(file)
        except (OSError, ValueError):
            return []
        return [tuple(move) for move in found if isinstance(move, list) and len(move) == 2]

    def copy(self, parameters, call):
        path, _ = self.require_base(parameters)
        target = self.target(parameters)
        self.require_directory(parent(target))
        self.require_free(target)
        self.daemon.call(
            "operations/copyfile",
            srcFs=self.remote,
            srcRemote=path,
            dstFs=self.remote,
            dstRemote=target,
            _config={"IgnoreTimes": True},
        )
        return {"item": self.arrived(target)}

    def delete(self, parameters, call):
        path, found = self.require_base(parameters)
        if found["kind"] != "directory":
            self.daemon.call("operations/deletefile", fs=self.remote, remote=path)
            return {}
        for entry in self.entries(path):
            if not is_reserved(entry["Name"]):
                raise Failed("directoryNotEmpty")
            # Whoever uploads to a folder that goes has what it sends.
            self.end_leftover(path, entry["Name"], ASIDE_TIME)
        self.daemon.call("operations/rmdirs" if "BucketBased" in self.can else "operations/rmdir", fs=self.remote, remote=path)
        return {}
