"""`rclone rcd` as cove-rclone drives it: its process, its calls, and what its errors mean."""

import base64
import contextlib
import datetime
import http.client
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
import urllib.parse

from cove_provider import Failed

KINDS = [
    ("serverUnreachable", r"dial tcp|connection re|no such host|i/o timeout|network is|unreachable|bad gateway|couldn't connect"),
    ("noSuchItem", r"(directory|object|file|404) not found$|no such file or directory$|not a directory$|is a directory( not a file)?$"),
    ("unsupported", r"name too long"),
    ("directoryNotEmpty", r"not empty"),
    ("insufficientQuota", r"no space left|quota|insufficient storage"),
    ("notAuthenticated", r"unauthori[sz]ed|invalid_grant|token expired"),
    ("notPermitted", r"permission denied|forbidden|read.only|not allowed"),
    ("throttled", r"too many requests|rate limit"),
]

# How errors of calls of the system with paths begin, after what rclone puts before them.
SYSTEM = re.compile(r"([\w ,.'-]+: )*\w+ /")
# A name as most remotes write it in what they say.
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')

# Of uploads of so many bytes it is told how far they are.
LARGE = 1 << 20


class Daemon:
    """`rclone rcd` on a port of this machine that only this program has the password of."""

    def __init__(self):
        self.password = secrets.token_hex(16)
        # What would change its answers, or keep it from saying where it is, is not meant for this.
        odd = re.compile(r"RCLONE_(RC|LOG|SYSLOG|DRY_RUN|FILTER|INCLUDE|EXCLUDE|FILES_FROM|MAX_|MIN_)")
        environment = {name: value for name, value in os.environ.items() if not odd.match(name)}
        environment.update(RCLONE_RC_USER="cove", RCLONE_RC_PASS=self.password, RCLONE_ASK_PASSWORD="false")
        options = ["--rc-addr", "127.0.0.1:0", "--rc-serve", "--retries", "1", "--low-level-retries", "2"]
        options += ["--timeout", "30s", "--contimeout", "10s"]
        if shutil.which("rclone") is None:
            raise Failed("unsupported", "there is no program rclone; install it")
        # The shell ends rclone when this program is gone, however that ended.
        guard = '"$@" < /dev/null & exec 2> /dev/null; read -r line; kill $!'
        try:
            self.process = subprocess.Popen(
                ["sh", "-c", guard, "sh", "rclone", "rcd", *options],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise Failed("unsupported", f"rclone can't be run: {error.strerror}")
        self.port = None
        for line in self.process.stderr:
            sys.stderr.write(line)
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.port is None:
            raise Failed("serverUnreachable", "rclone ended before it served anything; its words are above this")
        threading.Thread(target=self.watch, daemon=True).start()
        self.idle = []
        self.lock = threading.Lock()

    def watch(self):
        """Passes on what rclone says; its end is this program's."""
        for line in self.process.stderr:
            sys.stderr.write(line)
            sys.stderr.flush()
        sys.stderr.write("rclone has ended\n")
        sys.stderr.flush()
        os._exit(1)

    def connection(self):
        with self.lock:
            if self.idle:
                return self.idle.pop()
        return self.new_connection()

    def new_connection(self, timeout=None):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def keep(self, connection):
        with self.lock:
            self.idle.append(connection)

    def request(self, method, path, body=None, headers=()):
        """An answer that is to be read, and its connection."""
        for attempt in (1, 2):
            # Where one has ended, others that were idle may have, too.
            connection = self.connection() if attempt == 1 else self.new_connection()
            is_used = connection.sock is not None
            try:
                return self.request_on(connection, method, path, body, headers)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # Only one that was idle may have ended meanwhile, before it took anything.
                gone = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)
                if not is_used or attempt == 2 or not isinstance(error, gone):
                    raise Failed("failed", f"rclone does not answer: {error}")

    def request_on(self, connection, method, path, body, headers):
        login = base64.b64encode(f"cove:{self.password}".encode()).decode()
        connection.request(method, path, body, {"Authorization": f"Basic {login}", **dict(headers)})
        return connection.getresponse(), connection

    def call(self, name, /, **parameters):
        """What an rc call answers."""
        response, connection = self.request("POST", "/" + name, *body_of(parameters))
        try:
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Failed("serverUnreachable", f"rclone answered in part: {error}")
        self.keep(connection)
        return result_of(response, answer)

    def call_for(self, seconds, name, **parameters):
        """The same, ended when it has taken so long: rclone stops what nobody waits for any more."""
        connection = self.new_connection(seconds)
        try:
            response, _ = self.request_on(connection, "POST", "/" + name, *body_of(parameters))
            return result_of(response, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise Failed("serverUnreachable", f"rclone takes too long: {error}")
        finally:
            connection.close()

    def upload(self, file, remote, path, call=None):
        """Copies a file of this disk to a remote, and says in a call of Cove's meanwhile how much of a large one is there."""
        place, name = os.path.split(file)
        tell = call.say_alive if call and os.stat(file).st_size >= LARGE else None
        with self.counting(tell) as group:
            target = {"dstFs": remote, "dstRemote": path, "_config": {"IgnoreTimes": True}}
            self.call("operations/copyfile", srcFs=place, srcRemote=name, **target, **group)

    @contextlib.contextmanager
    def counting(self, tell):
        """What has rclone count the bytes of calls by themselves, which are told each second; nothing without `tell`."""
        if tell is None:
            yield {}
            return
        group = f"cove-{secrets.token_hex(8)}"
        is_over = threading.Event()

        def count():
            while not is_over.wait(1):
                with contextlib.suppress(Failed):
                    # The sum of the group has in it what was sent in vain.
                    for transfer in self.call("core/stats", group=group).get("transferring") or []:
                        tell(transfer.get("bytes", 0))

        thread = threading.Thread(target=count, daemon=True)
        thread.start()
        try:
            yield {"_group": group}
        finally:
            is_over.set()
            thread.join()
            with contextlib.suppress(Failed):
                self.call("core/stats-delete", group=group)

    def open(self, remote, path, start, end):
        """The answer that has bytes of a file, and its connection."""
        quoted = urllib.parse.quote(f"[{remote}]/{path}", safe="/[]:")
        response, connection = self.request("GET", "/" + quoted, headers={"Range": f"bytes={start}-{end - 1}"})
        if response.status in (200, 206):
            return response, connection
        try:
            answer = response.read()
        except http.client.IncompleteRead as error:
            # It has told the size of the file, and then sent its words.
            answer = error.partial
        except (OSError, http.client.HTTPException):
            answer = b""
        connection.close()
        if response.status == 416:
            raise Failed("versionNoLongerAvailable")
        answer = answer.decode(errors="replace")
        try:
            answer = str(json.loads(answer).get("error", answer))
        except (ValueError, AttributeError):
            pass
        raise failure(response.status, answer)


def body_of(parameters):
    """The body of an rc call, and what is said of it."""
    # Else rclone counts each call by itself, and forgets the count of a long one over the next thousand.
    parameters = {"_group": "cove", **parameters}
    return json.dumps(parameters).encode(), {"Content-Type": "application/json"}


def result_of(response, answer):
    """What the answer to an rc call says."""
    try:
        result = json.loads(answer)
    except ValueError:
        raise Failed("failed", f"rclone answered {response.status} without JSON")
    if response.status != 200:
        raise failure(response.status, str(result.get("error", response.status)))
    return result


def failure(status, message):
    """The error that an answer of rclone's stands for."""
    if status == 404:
        return Failed("noSuchItem", message)
    words = message.strip()
    # The names before the reason may have any words in them; where they are quoted they can be left out.
    reasons = [words.rpartition(": ")[2]]
    if not SYSTEM.match(words):
        reasons.append(QUOTED.sub("", words))
    for reason in reasons:
        for kind, pattern in KINDS:
            if re.search(pattern, reason, re.IGNORECASE | re.MULTILINE):
                return Failed(kind, message)
    return Failed("failed", message)


def nanoseconds(date):
    """A date as rclone writes it, in nanoseconds since 1970; nothing for what is none."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", date or "")
    if not found:
        return None
    zone = "+00:00" if found.group(3) == "Z" else found.group(3)
    try:
        moment = datetime.datetime.fromisoformat(found.group(1) + zone)
    except ValueError:
        return None
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    seconds = (moment - epoch) // datetime.timedelta(seconds=1)
    value = seconds * 10**9 + int((found.group(2) or "0").ljust(9, "0"))
    return value if abs(value) < 1 << 63 else None
