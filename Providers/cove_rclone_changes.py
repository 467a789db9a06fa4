"""What cove-rclone changes in a remote: each change looks first, and puts in its place at once what arrived beside it."""

import collections
import contextlib
import datetime
import os
import secrets
import sys
import tempfile
import time

from cove_provider import Failed, is_reserved, text
from cove_rclone_daemon import LARGE, failure
from cove_rclone_moves import FolderMoves
from cove_rclone_names import ASIDE_TIME, PICTURES, UPLOAD, aside, joined, parent
from cove_rclone_root import MARK

# rclone's precision of a remote that keeps no dates.
NO_DATES = 3153600000000000000
# What the versions of files begin with that have no size before they are exported.
UNSIZED = "unsized"
# So old may be what is known of names that several items have.
DOUBLES_TIME = 10


class Changes(FolderMoves):
    """The calls of a remote that change it; how it looks is with the remote itself."""

    # After so many seconds the folder that a file goes to is looked for again.
    SLOW = 1

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
        self.root.require_mark()
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
        if parameters["kind"] == "directory":
            self.require_directory(directory)
            with self.names.alone(call, path):
                self.require_free(path)
                self.daemon.call("operations/mkdir", fs=self.remote, remote=path)
        elif parameters["kind"] == "file":
            self.require_free(path)
            self.require_directory(directory)
            return {"item": self.upload(path, parameters, call, lambda: self.require_free(path))}
        else:
            raise Failed("unsupported", "rclone keeps no symbolic links")
        return {"item": self.arrived(path)}

    def require_directory(self, path):
        """rclone makes a folder that is not there, and Cove wants to hear of that."""
        self.root.require_mark()
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
            return {"item": self.upload(path, parameters, call, lambda: self.require_base(parameters)[1])}
        elif found["kind"] == "file":
            with self.names.alone(call, path):
                self.require_base(parameters)
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
        words = str(answer.get("result", "")).strip()
        # Some remotes date what is sent only: what was dated here keeps that on this device.
        if answer.get("error") and "can't set modified time" not in words:
            raise failure(500, words or "rclone touch failed")

    def arrived(self, path):
        found = self.stat(path)
        # The disk may have gone on the way, so that it has arrived in another folder.
        self.root.require_mark()
        if found is not None and found["name"] != path.rpartition("/")[2]:
            raise Failed("unsupported", f"the remote calls it {found['name']}")
        if found is None:
            raise Failed("failed", f"{path}: it is not there after it was sent")
        return found

    def upload(self, path, parameters, call, require):
        """Takes the content to this disk, and has rclone put it where it belongs, all of it at once; the item there."""
        began = time.monotonic()
        descriptor, file = tempfile.mkstemp(dir=self.spool)
        if parameters.get("size", 0) >= LARGE:
            # What is taken here has not arrived anywhere.
            call.say_alive(0)
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
            entry = self.daemon.call("operations/stat", fs=self.spool, remote=os.path.basename(file), opt=self.options())
            own = self.item(entry["item"])
            # Where the remote dates it, and by whole seconds, another one has to come first.
            for pause in (0, 1, 1, 1):
                time.sleep(pause)
                # What came slowly may have come after its folder went, which rclone would make again.
                if time.monotonic() - began > self.SLOW:
                    self.require_directory(parent(path))
                self.put(file, path, require, call)
                found = self.arrived(path)
                if self.hash or not replaced or found.get("contentVersion") != replaced["contentVersion"]:
                    break
            if not self.is_sent(file, own, path, found):
                raise Failed("conflict" if replaced else "filenameCollision", item=found)
            return found
        finally:
            os.unlink(file)

    def date_after(self, file, date):
        """Gives a file another date than the one that it replaces has."""
        step = max(self.precision, 1)
        now = os.stat(file).st_mtime_ns
        if date is not None and step < NO_DATES and now // step == date // step:
            os.utime(file, ns=(now + step, now + step))

    def put(self, file, path, require, call):
        if not self.moves_files:
            # What such a remote shows of an upload is all of it.
            with self.names.alone(call, path):
                require()
                self.daemon.upload(file, self.remote, path, call)
            return
        place = joined(parent(path), f"{UPLOAD}{int(time.time())}-{secrets.token_hex(8)}")
        replaced = None
        try:
            self.daemon.upload(file, self.remote, place, call)
            with self.names.alone(call, path):
                replaced = require()
                self.bring(place, path, replaced)
        except BaseException:
            # What has not arrived goes, the sender has it; unless rclone has deleted what it was to replace.
            if not replaced or self.stat(path) is not None:
                self.drop(place)
            raise

    def bring(self, place, path, replaced):
        """Gives what was uploaded its name, where nothing has it but what it replaces."""
        if not replaced:
            return self.move_file(place, path)
        # rclone deletes what a move replaces, before it moves: it goes aside instead, and comes back if need be.
        former = aside(path)
        try:
            self.move_aside(path, former, replaced)
        except Failed as error:
            if error.kind != "unsupported":
                raise
            # There is no room for a longer name, of which an encrypted remote has less: rclone replaces it.
            return self.move_file(place, path, replaces=True)
        try:
            self.move_file(place, path)
        except BaseException:
            self.bring_back(former, path)
            raise
        self.drop(former)

    def move_aside(self, path, place, found):
        """Has a file go aside, which must be what was found of it: it may be another one than a moment ago."""
        if len(place.rpartition("/")[2].encode("utf-8", "surrogateescape")) > 255:
            raise Failed("unsupported", "its name is too long")
        try:
            self.move_file(path, place)
            moved = self.stat(place)
            if moved is None or moved["contentVersion"] != found["contentVersion"]:
                raise Failed("conflict")
        except BaseException:
            # It may have gone before the answer was lost.
            with contextlib.suppress(Failed):
                if self.stat(place) is not None:
                    self.bring_back(place, path)
            raise

    def bring_back(self, place, path):
        """Gives what was aside its name again, or one beside it where another item has that: nobody knows whose it is."""
        stem, dot, ending = path.rpartition(".")
        if not dot or "/" in ending or not stem or stem.endswith("/"):
            stem, dot, ending = path, "", ""
        for count in range(1000):
            suffix = "" if count == 0 else f" (recovered{'' if count == 1 else f' {count}'})"
            try:
                return self.move_file(place, f"{stem}{suffix}{dot}{ending}")
            except Failed as error:
                if error.kind != "filenameCollision":
                    raise
        raise Failed("failed", f"{path}: no name is free for what was there before")

    def drop(self, path):
        try:
            self.daemon.call("operations/deletefile", fs=self.remote, remote=path)
        except Failed as error:
            if error.kind != "noSuchItem":
                sys.stderr.write(f"{path}: {error}\n")

    def move_file(self, path, target, replaces=False):
        """Moves a file; where something has its new name, unless it replaces that, it stays where it is."""
        failure = None
        try:
            self.daemon.call(
                "operations/movefile",
                srcFs=self.remote,
                srcRemote=path,
                dstFs=self.remote,
                dstRemote=target,
                _config={"IgnoreTimes": True, "IgnoreExisting": not replaces},
            )
        except Failed as error:
            failure = error
        if replaces:
            if failure:
                raise failure
            return
        # rclone looks at the new name itself just before it moves, and says nothing when it then does not.
        if self.stat(path) is None:
            # What failed may have been the answer alone; not where rclone has found nothing to move.
            if failure and (failure.kind == "noSuchItem" or self.stat(target) is None):
                raise failure
            return
        taken = self.stat(target)
        if taken is not None:
            raise Failed("filenameCollision", item=taken)
        raise failure or Failed("failed", f"{path}: rclone did not move it")

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
            with self.names.alone(call, source, target):
                if self.stat(source) is None:
                    self.note_move(source, target, False)
                else:
                    self.move_directory(source, target)
                return {"item": self.arrived(target)}
        with self.names.alone(call, source, target):
            path, found = self.require_base(parameters)
            # Letter by letter: folded, straße and strasse were one name, which they are nowhere.
            is_same = "CaseInsensitive" in self.can and path.lower() == target.lower()
            if not is_same:
                self.require_free(target)
            if found["kind"] == "directory":
                self.move_directory(path, target)
                return {"item": self.arrived(target)}
            self.move_file(path, target, replaces=is_same)
            moved = self.arrived(target)
            # Dates may change on the way.
            if moved["size"] != found["size"] or self.hash and moved["contentVersion"] != found["contentVersion"]:
                self.bring_back(target, path)
                raise Failed("conflict")
            return {"item": moved}

    def copy(self, parameters, call):
        path, _ = self.require_base(parameters)
        target = self.target(parameters)
        self.require_directory(parent(target))
        with self.names.alone(call, target):
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
        with self.names.alone(call, text(parameters["item"]["path"])):
            path, found = self.require_base(parameters)
            if found["kind"] != "directory":
                self.daemon.call("operations/deletefile", fs=self.remote, remote=path)
                return
            names = [entry["Name"] for entry in self.entries(path)]
            if not all(is_reserved(name) for name in names):
                raise Failed("directoryNotEmpty")
            marks = [name for name in names if name.startswith(MARK)]
            for name in names:
                if name == PICTURES:
                    # Of devices to which the folder is the root.
                    self.daemon.call("operations/purge", fs=self.remote, remote=joined(path, name))
                elif name not in marks:
                    # Whoever uploads to a folder that goes has what it sends.
                    self.end_leftover(path, name, ASIDE_TIME)
            if marks:
                # They stay where anything else does.
                if any(not entry["Name"].startswith(MARK) for entry in self.entries(path)):
                    raise Failed("directoryNotEmpty")
                for name in marks:
                    self.drop(joined(path, name))
            self.daemon.call("operations/rmdirs" if "BucketBased" in self.can else "operations/rmdir", fs=self.remote, remote=path)
