import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

extension MountedInCompany {
    /// Sources and clients that say anything, while programs work: the daemon stays, and nothing of theirs is lost.
    ///
    /// COVE_FUZZ_SECONDS makes each a longer one, COVE_FUZZ_SEED takes another way.
    struct HostileSourceTests {
        private static let environment = ProcessInfo.processInfo.environment
        static let seconds = environment["COVE_FUZZ_SECONDS"].flatMap(Int.init) ?? 12
        /// Another one in every run.
        static let seed = {
            let seed = environment["COVE_FUZZ_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...UInt64(UInt32.max))
            print("hostile sources: seed \(seed)")
            return seed
        }()

        /// Works at random for a while, and prints which contents must be somewhere at the end, by path.
        private static let worker = """
            import json, os, random, shutil, signal, stat, sys, time
            rng = random.Random(int(sys.argv[1])); end = time.monotonic() + float(sys.argv[2])
            there = {}; n = 0; steps = 0
            folders = ["."]; doing = ""
            def hangs(*_): raise RuntimeError("it hangs at " + doing)
            signal.signal(signal.SIGALRM, hangs); signal.alarm(int(float(sys.argv[2])) + 40)
            def name(): return os.path.join(rng.choice(folders), "f%d" % rng.randrange(30))
            def read(path):
                global doing
                doing = "read " + repr(path)
                # A link may lead out of the mount to what is a fifo by now, which would be waited for.
                f = os.open(path, os.O_RDONLY | (os.O_NONBLOCK if os.path.islink(path) else os.O_NOFOLLOW))
                try:
                    if stat.S_ISREG(os.fstat(f).st_mode): os.read(f, 100000)
                finally: os.close(f)
            def write(path):
                global n, doing
                n += 1; token = "token-%d." % n; doing = "write " + repr(path)
                there.pop(path, None)
                kind = rng.randrange(3)
                target = path if kind else path + ".new"
                with open(target, "w") as f:
                    f.write(token * rng.choice([1, 1, 10, 3000]))
                    if kind == 2: f.flush(); os.fsync(f.fileno())
                if not kind: os.rename(target, path)
                there[path] = token
            while time.monotonic() < end:
                steps += 1
                try:
                    act = rng.randrange(12); doing = "act %d" % act
                    if act < 6: write(name())
                    elif act == 6:
                        a, b = name(), name()
                        if a != b:
                            os.rename(a, b)
                            there.pop(b, None)
                            if a in there: there[b] = there.pop(a)
                    elif act == 7:
                        a = name(); os.unlink(a); there.pop(a, None)
                    elif act == 8 and len(folders) < 6:
                        d = "d%d" % len(folders); os.mkdir(d); folders.append(d)
                    elif act == 9: [os.stat(os.path.join(d, e)) for d in folders for e in os.listdir(d)[:20]]
                    else:
                        d = rng.choice(folders)
                        entries = os.listdir(d)
                        for e in rng.sample(entries, min(3, len(entries))):
                            p = os.path.join(d, e)
                            if os.path.isfile(p): read(p)
                except OSError: pass
                time.sleep(rng.random() * 0.02)
            print(json.dumps({"steps": steps, "there": there}))
            """

        /// The contents of all files below folders.
        private static let finder = """
            import json, os, re, sys
            found = set()
            for top in sys.argv[1:]:
                for path, _, files in os.walk(top, onerror=lambda e: None):
                    for f in files:
                        try:
                            p = os.path.join(path, f)
                            if os.path.isfile(p): found.update(re.findall(rb"^token-\\d+\\.", open(p, "rb").read(40)))
                        except OSError: pass
            print(json.dumps([f.decode() for f in found]))
            """

        private struct Work: Decodable {
            var steps: Int
            var there: [String: String]
        }

        /// Has the worker work while something else goes on, and sees that the daemon is the same and all contents are found.
        private static func survive(
            _ account: MountedAccount,
            _ seed: UInt64,
            there: @escaping () -> [[UInt8]] = { [] },
            meanwhile: () throws -> Void,
            end: () -> Void
        ) throws -> Int {
            for (name, text) in [("work.py", worker), ("find.py", finder)] {
                try text.write(toFile: account.scratch.appending(name), atomically: false, encoding: .utf8)
            }
            let daemon = try account.statistics().daemonPID
            let job = try account.start("exec timeout \(seconds + 60) python3 $tmp/work.py \(seed) \(seconds)")
            while !job.hasEnded(within: 0.2) { try meanwhile() }
            let result = try job.wait(deadline: 60)
            #expect(result.status == 0, "\(result.error)")
            end()
            let work = try JSONDecoder().decode(Work.self, from: Data(result.output.utf8))
            var missing: [String: String] = [:]
            try wait("all that was written is somewhere", deadline: 90, told: { "\(missing)" }) {
                try account.shell("$COVE sync --accept-deletions --accept-local-deletions --state $STATE")
                let text = try account.shell("python3 $tmp/find.py $mnt $mnt/.cove/versions $src")
                var found = try Set(JSONDecoder().decode([String].self, from: Data(text.utf8)))
                for bytes in there() {
                    let start = String(decoding: bytes.prefix(40), as: UTF8.self)
                    if start.hasPrefix("token-"), let dot = start.firstIndex(of: ".") {
                        found.insert("\(start[...dot])")
                    }
                }
                missing = work.there.filter { !found.contains($0.value) }
                return missing.isEmpty
            }
            #expect(try account.statistics().daemonPID == daemon)
            #expect(try !account.shell("cat $STATE/log").contains("keeper:"))
            return work.steps
        }

        private static func wait(
            _ what: String,
            deadline: Double,
            told: () -> String,
            _ isSo: () throws -> Bool
        ) throws {
            do { try CoveTestSupport.waitUntil(what, deadline: deadline, isSo) } catch {
                throw CommandFailure("\(error): \(told())")
            }
        }

        @Test func `a WebDAV server says anything`() async throws {
            try await blocking {
                let seed = Self.seed
                let cloud = try ScriptedCloud()
                for number in 0..<20 { cloud.put("far\(number)", Array("far away \(number)".utf8)) }
                let account = try MountedAccount(options: "settle=50ms,poll=1s,stall-limit=2s", address: cloud.source)
                try account.start()
                let mutator = Mutator(seed: seed)
                cloud.answer { _ in mutator.refuses() }
                cloud.rewrite { _, reply in mutator.change(&reply) }
                var round = 0
                let steps = try Self.survive(account, seed) {
                    cloud.names().flatMap { name in
                        [cloud.bytes(name)].compactMap(\.self)
                            + cloud.names(name).compactMap { cloud.bytes("\(name)/\($0)") }
                    } + cloud.names(".cove/trash").compactMap { cloud.bytes(".cove/trash/\($0)") }
                } meanwhile: {
                    round += 1
                    cloud.put("far\(round % 20)", Array("far away again \(round)".utf8))
                    try account.shell("$COVE status --state $STATE")
                } end: {
                    mutator.end()
                }
                print("WebDAV: \(steps) steps, \(mutator.counts), \(Self.seconds) s, seed \(seed)")
                try account.end()
            }
        }

        @Test func `an S3 server says anything`() async throws {
            try await blocking {
                let seed = Self.seed
                let server = try Cloud.seaweedFS.start()
                let port = server.port
                let mutator = Mutator(seed: seed)
                let isHostile = Atomic(false)
                let front = try ScriptedServer { _ in
                    guard isHostile.load(ordering: .acquiring) else { return .handOn(port) }
                    return mutator.refuses() ?? .changed(port) { mutator.change(&$0) }
                }
                let address = Cloud.s3Address(front.port)
                let account = try MountedAccount(options: "settle=50ms,poll=1s,stall-limit=2s", address: address)
                try account.start()
                isHostile.store(true, ordering: .releasing)
                let steps = try Self.survive(account, seed) {
                    try account.shell("$COVE status --state $STATE")
                } end: {
                    isHostile.store(false, ordering: .releasing)
                }
                print("S3: \(steps) steps, \(mutator.counts), \(Self.seconds) s, seed \(seed)")
                try account.end()
            }
        }

        @Test func `a folder holds anything`() async throws {
            try await blocking {
                let seed = Self.seed
                let account = try MountedAccount(options: "settle=50ms")
                try account.start()
                let vandal = """
                    import os, random, shutil, socket, sys
                    rng = random.Random(int(sys.argv[1])); src = os.environ["src"].encode(); n = 0
                    names = [b"v%d" % i for i in range(12)] + [b"v\\xff\\xfe", b"v\\n", b"v ", b"v" * 255, b"v\\x01", b"v'\\"",
                        "v\\u0301".encode(), b"v.cove-x", b"v:", b"v\\\\"]
                    def place():
                        inner = [os.path.join(src, d) for d in os.listdir(src) if not d.startswith(b".")]
                        # Nothing beyond a link is touched.
                        tops = [src] + [d for d in inner if os.path.isdir(d) and not os.path.islink(d)]
                        return os.path.join(rng.choice(tops), rng.choice(names))
                    def clear(p):
                        if os.path.isdir(p) and not os.path.islink(p): shutil.rmtree(p, ignore_errors=True)
                        elif os.path.lexists(p): os.unlink(p)
                    while not os.path.exists(os.environ["tmp"] + "/stop"):
                        n += 1
                        try:
                            p = place(); act = rng.randrange(13)
                            if act < 3:
                                f = os.open(p, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOFOLLOW)
                                try: os.write(f, rng.randbytes(rng.randrange(5000)))
                                finally: os.close(f)
                            elif act == 3: clear(p); os.mkdir(p)
                            elif act == 4: clear(p); os.symlink(rng.choice([b"v1", b"/", b"..", p, b"x" * 4000]), p)
                            elif act == 5: clear(p); os.mkfifo(p)
                            elif act == 6:
                                clear(p); s = socket.socket(socket.AF_UNIX); os.chdir(os.path.dirname(p)); s.bind(b"v-socket")
                            elif act == 7:
                                date = rng.choice([-2**62, 2**62, -1, 0, 2**63 - 1, -62135596800 * 10**9])
                                os.utime(p, ns=(0, date), follow_symlinks=False)
                            elif act in (8, 9) and os.path.islink(p): pass
                            elif act == 8: os.chmod(p, rng.choice([0, 0o7777, 0o200, 0o444]))
                            elif act == 9: os.truncate(p, rng.choice([0, 1, 2**40, 2**62]))
                            elif act == 10: os.rename(p, place())
                            elif act == 11: clear(p)
                            else: os.link(p, place(), follow_symlinks=False)
                        except (OSError, OverflowError): pass
                    print(n)
                    """
                try vandal.write(toFile: account.scratch.appending("v.py"), atomically: false, encoding: .utf8)
                let job = try account.start("cd /; exec python3 $tmp/v.py \(seed)")
                let steps = try Self.survive(account, seed) {
                    try account.shell("$COVE status --state $STATE; ls -lR > $tmp/listing 2>&1 || true")
                } end: {
                    _ = try? account.shell("touch $tmp/stop")
                }
                let count = try job.wait(deadline: 30)
                print(
                    "folder: \(steps) steps, \(count.output.dropLast()) changes, \(Self.seconds) s, seed \(seed)\(count.error)"
                )
                try account.end()
            }
        }

        @Test func `a client of the sockets says anything`() async throws {
            try await blocking {
                let seed = Self.seed
                let account = try MountedAccount(options: "settle=50ms")
                for number in 0..<20 { try account.source.save("f\(number)", Array("hi\n".utf8)) }
                try account.start()
                let client = """
                    import glob, json, os, random, re, socket, sys, time
                    rng = random.Random(int(sys.argv[1])); end = time.monotonic() + float(sys.argv[2]); n = 0
                    paths = glob.glob(os.environ["STATE"] + "/*.sock")
                    def ask(path, data, wait=0.2):
                        s = socket.socket(socket.AF_UNIX); s.settimeout(wait)
                        try:
                            s.connect(path); s.sendall(data); got = b""
                            while not got.endswith(b"\\0"):
                                more = s.recv(65536)
                                if not more: break
                                got += more
                            return got
                        except OSError: return b""
                        finally: s.close()
                    methods = []
                    for path in paths:
                        def call(method, **p): return json.loads(ask(path, json.dumps({"method": method, "parameters": p}).encode()
                            + b"\\0", 10)[:-1])["parameters"]
                        for interface in call("org.varlink.service.GetInfo")["interfaces"]:
                            text = call("org.varlink.service.GetInterfaceDescription", interface=interface)["description"]
                            for method, inputs in re.findall(r"method (\\w+)\\s*\\(([^)]*)\\)", text):
                                if method in ("Unmount", "Upgrade"): continue
                                methods.append((path, interface + "." + method, re.findall(r"(\\w+):", inputs)))
                    values = ["1e10", "-1", "1e308", "5e-324", "0", "1e999", "null", "9223372036854775807", "-9223372036854775808",
                        "99999999999999999999", "true", "[]", "{}", '""', '"f1"', '"/"', '".."', '"\\\\u0000"', '"\\\\ud800"', '["f1"]',
                        '[{}]', '[[[[]]]]', "[" * 3000, "[" * 3000 + "]" * 3000, '"' + "x" * 70000 + '"', '"a/' + "b/" * 3000 + '"',
                        '{"path":"f1"}', '[{"path":"f1","kind":"writing"}]', '["f1","f2"]', "0.0000001", "9223372036.854775807"]
                    while time.monotonic() < end:
                        n += 1
                        path, method, inputs = rng.choice(methods)
                        text = '{"method":"%s","parameters":{%s}%s}' % (method, ",".join('"%s":%s' % (i, rng.choice(values))
                            for i in inputs if rng.random() < 0.8), rng.choice(["", "", ',"more":true', ',"oneway":true']))
                        data = text.encode() + b"\\0"
                        act = rng.randrange(8)
                        if act == 0: data = data[:rng.randrange(len(data))]
                        elif act == 1: data = bytes(rng.randrange(256) for _ in range(rng.randrange(300)))
                        elif act == 2: data = data * rng.randrange(1, 50)
                        elif act == 3:
                            data = bytearray(data)
                            for _ in range(3): data[rng.randrange(len(data))] = rng.randrange(256)
                        ask(path, bytes(data), rng.choice([0.001, 0.01, 0.1]))
                    print(n)
                    """
                try client.write(toFile: account.scratch.appending("c.py"), atomically: false, encoding: .utf8)
                let job = try account.start("cd /; exec python3 $tmp/c.py \(seed) \(Self.seconds)")
                let steps = try Self.survive(account, seed) {
                    // Paused by the client it would send nothing.
                    try account.shell("$COVE resume --state $STATE")
                } end: {
                    _ = try? account.shell("$COVE resume --state $STATE")
                }
                let result = try job.wait(deadline: 60)
                #expect(result.status == 0, "\(result.error)")
                print("sockets: \(steps) steps, \(result.output.dropLast()) calls, \(Self.seconds) s, seed \(seed)")
                try account.shell("$COVE resume; echo new > new; cat new")
                try waitUntil("it is sent") {
                    try account.shell("$COVE sync --accept-local-deletions")
                    return try account.source.snapshot()["new"] == Array("new\n".utf8)
                }
                try account.end()
            }
        }
    }
}
