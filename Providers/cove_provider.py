"""The provider protocol for programs in Python, with the standard library only.

A provider is a class with a method for each call that it answers; `serve` does the rest. Documentation.docc/ProviderProtocol.md
describes the protocol, cove-zip and cove-rclone are providers made with this.
"""

import base64
import hashlib
import json
import secrets
import struct
import sys
import threading
import time

VERSION = 1
PIECE = 256 * 1024


class Failed(Exception):
    """What a call is answered with when it can't be done."""

    def __init__(self, kind, message="", **more):
        super().__init__(message)
        self.kind, self.message, self.more = kind, message, more


class Connection:
    """Frames to and from Cove: two lengths of four bytes, a JSON object, and bytes that belong to it."""

    def __init__(self):
        self.input, self.output = sys.stdin.buffer, sys.stdout.buffer
        # What is printed by accident is no message.
        sys.stdout = sys.stderr
        self.lock = threading.Lock()

    def send(self, header, body=b""):
        text = json.dumps(header).encode()
        with self.lock:
            self.write(text, body)

    def write(self, text, body=b""):
        """Writes a frame; under the lock."""
        self.output.write(struct.pack(">II", len(text), len(body)) + text + body)
        self.output.flush()

    def send_for(self, call, header, body=b""):
        """Sends what belongs to a call, unless that has its answer: nothing follows an answer."""
        text = json.dumps({"id": call.number, **header}).encode()
        with self.lock:
            if call.is_answered:
                raise Failed("cancelled")
            self.write(text, body)

    def answer(self, call, header):
        """Answers a call, once."""
        text = json.dumps({"id": call.number, **header}).encode()
        with self.lock:
            if not call.is_answered:
                call.is_answered = True
                self.write(text)

    def receive(self):
        """The next header and body; nothing once Cove has ended."""
        start = self.input.read(8)
        if len(start) < 8:
            return None, b""
        header, body = struct.unpack(">II", start)
        return json.loads(self.input.read(header)), self.input.read(body)


class Call:
    """One call under way: its parameters, the bytes that come and go with it, and whether Cove still wants it."""

    WINDOW = 4 * 1024 * 1024

    def __init__(self, connection, number, name, parameters):
        self.connection, self.number, self.name, self.parameters = connection, number, name, parameters
        self.room = self.WINDOW
        self.is_cancelled = self.is_answered = False
        self.pieces, self.has_all = [], False
        self.last_sign = time.monotonic()
        self.changed = threading.Condition()

    def add_room(self, count):
        with self.changed:
            self.room += count
            self.changed.notify_all()

    def cancel(self):
        with self.changed:
            self.is_cancelled = True
            self.changed.notify_all()

    def say_alive(self, sent=None):
        """Says that the call goes on, though there is nothing to answer yet, and how much of its content the cloud has."""
        self.last_sign = time.monotonic()
        self.vouch({} if sent is None else {"sent": sent})

    def vouch(self, more={}):
        try:
            self.connection.send_for(self, {"alive": True, **more})
        except Failed:
            pass

    def send(self, offset, data):
        """Sends bytes of a fetch as fast as Cove takes them; the offset after them."""
        data = memoryview(data)
        while data:
            count = self.take_room(min(len(data), PIECE))
            self.connection.send_for(self, {"offset": offset}, bytes(data[:count]))
            self.last_sign = time.monotonic()
            offset, data = offset + count, data[count:]
        return offset

    def add_piece(self, data, is_last=False):
        with self.changed:
            if data:
                self.pieces.append(data)
            self.has_all = self.has_all or is_last
            self.changed.notify_all()

    def content(self):
        """The pieces of the content that comes with a call, as they arrive."""
        while True:
            with self.changed:
                while not self.pieces and not self.has_all and not self.is_cancelled:
                    self.changed.wait()
                if self.is_cancelled:
                    raise Failed("cancelled")
                if not self.pieces:
                    return
                pieces, self.pieces = self.pieces, []
            for piece in pieces:
                yield piece
            self.last_sign = time.monotonic()
            self.connection.send_for(self, {"credit": sum(len(piece) for piece in pieces)})

    def picture(self):
        """The picture that comes with setThumbnail, whole; nothing where one is to be dropped."""
        if "size" not in self.parameters:
            return None
        picture = b"".join(self.content())
        if len(picture) != self.parameters["size"]:
            raise Failed("failed", "the picture is not as long as it was said to be")
        return picture

    def check(self):
        """Ends the call when nobody waits for it any more."""
        with self.changed:
            if self.is_cancelled:
                raise Failed("cancelled")

    def take_room(self, count):
        """Waits until Cove takes some of so many bytes; how many."""
        with self.changed:
            while self.room <= 0 and not self.is_cancelled:
                self.changed.wait()
            if self.is_cancelled:
                raise Failed("cancelled")
            taken = min(count, self.room)
            self.room -= taken
            return taken


def raw(value):
    """Bytes as they stand in a header: a string, or base64 for what is no UTF-8."""
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


def text(value):
    """Bytes of a header as this archive's names are: UTF-8."""
    return raw(value).decode("utf-8", "surrogateescape")


class Anchors:
    """The anchor of a provider that is not told of changes: what is shown is listed again and again.

    That of another process, or of nobody, has expired.
    """

    def __init__(self):
        self.own = secrets.token_hex(16)

    def changes(self, parameters):
        if text(parameters.get("anchor", self.own)) != self.own:
            raise Failed("anchorExpired")
        return {"events": [], "anchor": self.own}


class Thumbnails:
    """The calls for pictures of documents, to be overridden by a provider that says makesThumbnails or keepsThumbnails.

    Cove asks no other one for pictures. Without those of setThumbnail a provider that makes some by itself is complete.
    """

    def thumbnails(self, parameters, call):
        """Which of `names`, files of `directory`, may have a picture: {"names": […]}, as they were asked for.

        Without an answer each is asked for.
        """

    def thumbnail(self, parameters, call):
        """Sends the picture of `version` of `item` by `call.send(0, bytes)`: an image file of at most 4 MiB.

        Nothing is sent where there is none; a picture of another version is none.
        """

    def setThumbnail(self, parameters, call):
        """Keeps `call.picture()`, a PNG file, for `version` of `item`; where that is nothing, drops the one of this version."""
        raise Failed("unsupported", "this provider keeps no pictures")


def path_id(path):
    """The identifier of an item that has none but its path; one that would be too long is its checksum."""
    identifier = "/" + path
    if len(identifier.encode("utf-8", "surrogateescape")) <= 400:
        return identifier
    return "sha256:" + hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()


def is_reserved(name):
    """True for a name that Cove keeps for itself, and shows to nobody.

    What has a name of the kind .cove-moving-… makes room for a moment: it is listed, found and moved as anything else.
    """
    return name == ".cove" or name.startswith(".cove-") and not name.startswith(".cove-moving-")


def distinct_names(items):
    """Gives items of one folder that have one name names of their own, as a cloud that tells items apart by their ids needs.

    The one with the first id keeps the name, each other one has a part of its id in it: the same one whoever lists the folder.
    Calls name an item by its id, so that the program finds it by that.
    """
    taken, result = set(), []
    names = {item["name"] for item in items}
    for item in sorted(items, key=lambda item: str(item["id"])):
        name = item["name"]
        if name in taken:
            mark = hashlib.sha256(str(item["id"]).encode("utf-8", "surrogateescape")).hexdigest()
            stem, dot, ending = name.rpartition(".")
            stem, ending = (stem, dot + ending) if stem else (name, "")
            for length in range(6, 65):
                name = f"{stem} ({mark[:length]}){ending}"
                if name not in names and name not in taken:
                    break
        taken.add(name)
        result.append({**item, "name": name})
    return result


def page_after(name):
    """The page that begins behind a name, in the order of names: what comes or goes meanwhile moves nothing out of it."""
    return {"base64": base64.b64encode(b"name:" + name.encode("utf-8", "surrogateescape")).decode()}


def page_start(parameters):
    """The name behind which a page begins; nothing for the first one."""
    if "page" not in parameters:
        return None
    page = text(parameters["page"])
    if not page.startswith("name:"):
        raise Failed("pageExpired")
    return page[len("name:") :]


class Server:
    """Answers Cove's calls, each on a thread of its own."""

    # How often it is said that calls go on, and how long of one that gives no sign by itself, in seconds.
    PAUSE, PATIENCE = 15, 600

    def __init__(self, provider):
        self.provider = provider
        self.connection = Connection()
        self.calls = {}
        self.lock = threading.Lock()

    def run(self):
        threading.Thread(target=self.say_alive, daemon=True).start()
        while True:
            header, body = self.connection.receive()
            if header is None or header.get("call") == "stop":
                return
            with self.lock:
                self.take(header, body)

    def take(self, header, body):
        number = header.get("cancel", header.get("id"))
        if "call" in header and number is not None:
            call = Call(self.connection, number, header["call"], header.get("parameters", {}))
            self.calls[number] = call
            threading.Thread(target=self.answer, args=(call,), daemon=True).start()
        elif number in self.calls:
            call = self.calls[number]
            if "cancel" in header:
                call.cancel()
                # What it waits for may take long yet, and Cove waits for the answer.
                self.reply(call, {"error": {"kind": "cancelled", "message": ""}})
            elif "credit" in header:
                call.add_room(header["credit"])
            else:
                call.add_piece(body, header.get("end", False))

    def answer(self, call):
        try:
            reply = {"result": self.result(call) or {}}
        except Failed as error:
            reply = {"error": {"kind": error.kind, "message": error.message, **error.more}}
        except Exception as error:
            reply = {"error": {"kind": "failed", "message": f"{type(error).__name__}: {error}"}}
        with self.lock:
            self.reply(call, reply)

    def reply(self, call, reply):
        """Answers a call; under the lock."""
        self.calls.pop(call.number, None)
        try:
            self.connection.answer(call, reply)
        except (TypeError, ValueError) as error:
            self.connection.answer(call, {"error": {"kind": "failed", "message": f"no answer: {error}"}})

    def say_alive(self):
        """Says now and then that calls go on.

        One that has given no sign by itself for long may wait for what never comes: it has to be a provider that knows better.
        """
        knows_better = getattr(self.provider, "is_at_work", lambda: False)
        while True:
            time.sleep(self.PAUSE)
            late = time.monotonic() - self.PATIENCE
            with self.lock:
                calls = list(self.calls.values())
            silent = [call for call in calls if call.last_sign < late]
            for call in calls:
                if call not in silent:
                    call.vouch()
            try:
                # Whatever becomes of that, the others are heard of.
                is_at_work = bool(silent) and knows_better()
            except Exception as error:
                print(f"is_at_work: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                is_at_work = False
            if is_at_work:
                for call in silent:
                    call.vouch()

    def result(self, call):
        if call.name == "hello" and VERSION not in call.parameters["versions"]:
            raise Failed("unsupported", f"this provider speaks version {VERSION}")
        method = getattr(self.provider, call.name, None) if call.name in CALLS else None
        if method is None:
            raise Failed("unsupported", f"this provider has no {call.name}")
        result = method(call.parameters, call)
        return {"version": VERSION, **result} if call.name == "hello" else result


CALLS = frozenset(
    (
        "hello list lookup changes fetch create modify move movesUnderway copy delete trash versions fetchVersion quota perform released"
        " thumbnails thumbnail setThumbnail persistentIdentifier itemForPersistentIdentifier"
    ).split()
)


def serve(provider):
    """Answers calls by the provider's methods of their names until Cove ends.

    A method gets the parameters and the call, and returns the result; it raises Failed with a kind of error.
    """
    Server(provider).run()
