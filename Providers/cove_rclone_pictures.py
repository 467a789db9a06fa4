"""Pictures of a remote's documents, which all devices that reach it share."""

import hashlib
import http.client
import os
import struct
import tempfile
import zlib

from cove_provider import Failed, Thumbnails, raw
from cove_rclone_names import PICTURES, joined

# No longer file is taken for a picture.
LARGEST = 4_000_000
SIGNATURE = b"\x89PNG\r\n\x1a\n"
VERSION = b"Cove::Version\0"


def mark(name):
    return hashlib.sha256(name).hexdigest()[:40]


def folder_of(directory):
    """Where the pictures are of what a directory holds."""
    return joined(PICTURES, mark(directory))


def file_name(name):
    return mark(name) + ".png"


def place_of(path):
    """Where the picture of a file is."""
    directory, _, name = path.rpartition(b"/")
    return joined(folder_of(directory), file_name(name))


def chunks(picture):
    """The chunks of a PNG file, each its name and what is in it; nothing for what is none, or is damaged."""
    if len(picture) > LARGEST or not picture.startswith(SIGNATURE):
        return None
    found, rest = [], memoryview(picture)[len(SIGNATURE) :]
    while not found or found[-1][0] != b"IEND":
        if len(rest) < 12:
            return None
        length = struct.unpack(">I", rest[:4])[0]
        if length > len(rest) - 12 or zlib.crc32(rest[4 : length + 8]) != struct.unpack(">I", rest[length + 8 : length + 12])[0]:
            return None
        found.append((bytes(rest[4:8]), bytes(rest[8 : length + 8])))
        rest = rest[length + 12 :]
    return found if found[0][0] == b"IHDR" else None


def file_of(found):
    """The PNG file that has these chunks."""
    pieces = [SIGNATURE]
    for name, content in found:
        pieces.append(struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content)))
    return b"".join(pieces)


def without_texts(found):
    return [chunk for chunk in found if chunk[0] != b"tEXt"]


def sealed(picture, version):
    """What is stored for a version: its picture, which says inside whose it is."""
    found = chunks(picture)
    if found is None:
        raise Failed("unsupported", "the picture is no PNG file")
    header, *rest = without_texts(found)
    stored = file_of([header, (b"tEXt", VERSION + version.hex().encode()), *rest])
    if len(stored) > LARGEST:
        raise Failed("unsupported", "the picture is too long")
    return stored


def opened(stored, version):
    """The picture of a version in what is stored; nothing when it is of another version, or anything else."""
    found = chunks(stored)
    if found is None:
        return None
    texts = [content for name, content in found if name == b"tEXt" and content.startswith(VERSION)]
    if not texts or texts[-1] != VERSION + version.hex().encode():
        return None
    return file_of(without_texts(found))


class Pictures(Thumbnails):
    """The calls of a remote for pictures."""

    def thumbnails(self, parameters, call):
        folder = folder_of(raw(parameters["directory"]["path"]))
        options = {"filesOnly": True, "noModTime": True, "noMimeType": True}
        try:
            answer = self.daemon.call("operations/list", fs=self.remote, remote=folder, opt=options)
        except Failed as error:
            self.require_missing(error)
            return {"names": []}
        present = {entry["Name"] for entry in answer.get("list") or []}
        return {"names": [name for name in parameters["names"] if file_name(raw(name)) in present]}

    def thumbnail(self, parameters, call):
        picture = self.picture(place_of(raw(parameters["item"]["path"])), raw(parameters["version"]))
        if picture is not None:
            call.send(0, picture)

    def setThumbnail(self, parameters, call):
        picture, version = call.picture(), raw(parameters["version"])
        place = place_of(raw(parameters["item"]["path"]))
        with self.names.alone(call, place):
            if picture is not None:
                self.store(place, sealed(picture, version))
            elif self.picture(place, version) is not None:
                self.daemon.call("operations/deletefile", fs=self.remote, remote=place)

    def picture(self, place, version):
        """The picture of a version at a place of the remote; nothing where there is none."""
        try:
            response, connection = self.daemon.open(self.remote, place, 0, LARGEST + 1)
        except Failed as error:
            # There is no first byte of an empty file.
            if error.kind != "versionNoLongerAvailable":
                self.require_missing(error)
            return None
        try:
            stored = response.read(LARGEST + 1)
            if len(stored) <= LARGEST and response.length:
                raise Failed("failed", "rclone sent a part only")
        except (OSError, http.client.HTTPException) as error:
            raise Failed("failed", f"rclone sent a part only: {error}")
        finally:
            if response.isclosed():
                self.daemon.keep(connection)
            else:
                connection.close()
        return opened(stored, version)

    def require_missing(self, error):
        """Fails unless an error says that something is not there, in a remote that is."""
        if error.kind != "noSuchItem":
            raise error
        error = self.gone()
        if error.kind != "noSuchItem":
            raise error

    def store(self, place, picture):
        # rclone makes folders that are not there, and would make the remote's own.
        self.require_root()
        descriptor, file = tempfile.mkstemp(dir=self.spool)
        try:
            with os.fdopen(descriptor, "wb") as spool:
                spool.write(picture)
            self.daemon.upload(file, self.remote, place)
        finally:
            os.unlink(file)
