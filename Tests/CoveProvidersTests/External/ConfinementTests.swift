import CoveCore
import CoveTestSupport
import Foundation
import Glibc
import Testing

@testable import CoveProviders

/// What an installed provider's process reaches, and what it may use.
@Suite(.timeLimit(.minutes(2)))
struct ConfinementTests {
    /// Greets, and leaves what it found out in its folder of state.
    private static let probe = """
        #!/usr/bin/python3
        import json, os, socket, struct, sys
        def reads(path):
            try:
                return open(path).read()
            except OSError as error:
                return error.strerror
        def writes(path):
            try:
                open(path, "a").write("!")
                return "written"
            except OSError as error:
                return error.strerror
        def connects(port):
            try:
                socket.create_connection(("127.0.0.1", port), 5).close()
                return "connected"
            except OSError as error:
                return type(error).__name__
        header, body = struct.unpack(">II", sys.stdin.buffer.read(8))
        hello = json.loads(sys.stdin.buffer.read(header))
        options = hello["parameters"]["options"]
        report = {
            "secret": reads(options["secret"]), "home": os.environ["HOME"], "variables": sorted(os.environ),
            "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
            "own": writes(__file__), "system": writes("/usr/bin/env"), "temporary": writes("/tmp/x"),
            "port": connects(int(options["port"])), "login": hello["parameters"].get("credentials"),
            "read": reads(options["read"] + "/f"), "reading": writes(options["read"] + "/f"),
            "writing": writes(options["write"] + "/f"),
            "rights": reads("/proc/self/status").split("CapEff:")[1].split()[0],
            "environment": reads("/proc/1/environ"), "root": writes("/x"), "device": writes("/dev/x"),
            "shared": writes("/dev/shm/x"), "processors": len(os.sched_getaffinity(0)),
            "descriptors": sorted(os.listdir("/proc/self/fd")),
        }
        open(hello["parameters"]["state"] + "/report", "w").write(json.dumps(report))
        text = json.dumps({"id": hello["id"], "result": {"version": 1}}).encode()
        sys.stdout.buffer.write(struct.pack(">II", len(text), 0) + text)
        sys.stdout.buffer.flush()
        sys.stdin.buffer.read()

        """

    /// Greets, and waits for the first call.
    private static let greeting = """
        #!/usr/bin/python3
        import json, struct, sys, time
        header, body = struct.unpack(">II", sys.stdin.buffer.read(8))
        hello = json.loads(sys.stdin.buffer.read(header))
        text = json.dumps({"id": hello["id"], "result": {"version": 1}}).encode()
        sys.stdout.buffer.write(struct.pack(">II", len(text), 0) + text)
        sys.stdout.buffer.flush()
        sys.stdin.buffer.read(8)
        """

    private struct Report: Codable {
        var secret, home, own, system, temporary, port, read, reading, writing: String
        var variables: [String]
        var rights, environment, root, device, shared: String
        var processes, processors: Int
        var login: [String: String]?
        var descriptors: [String]
    }

    private let folder: TemporaryDirectory

    init() throws {
        folder = try TemporaryDirectory()
        for name in ["program", "state", "read", "write"] { try System.mkdir(folder.appending(name), 0o700) }
        for name in ["secret", "read/f", "write/f"] { try put("bytes", folder.appending(name)) }
    }

    private func manifest(_ members: String, program: String) throws -> ProviderManifest {
        let path = folder.appending("program/provider")
        try put(program, path)
        try System.chmod(path, 0o755)
        return try ProviderManifest(
            name: "probe",
            file: folder.appending("program/probe.json"),
            text: Array("{\"program\": \"provider\"\(members)}".utf8)
        )
    }

    private func provider(_ manifest: ProviderManifest, port: UInt16 = 1) throws -> ExternalProvider {
        let options = [
            "secret": folder.appending("secret"), "read": folder.appending("read"), "write": folder.appending("write"),
            "port": "\(port)",
        ]
        return ExternalProvider(
            try ProviderProgram(manifest, name: "probe", options: options),
            state: folder.appending("state"),
            credentials: { Credentials(user: "ada", password: "secret") }
        ) { _ in }
    }

    /// What the probe tells of itself with the members of a manifest.
    private func report(_ members: String) async throws -> Report {
        let (descriptor, port) = try TestServer.listen()
        defer { close(descriptor) }
        let provider = try provider(try manifest(members, program: Self.probe), port: port)
        try await provider.start()
        await provider.stop()
        let text = try Data(contentsOf: URL(fileURLWithPath: folder.appending("state/provider/report")))
        return try JSONDecoder().decode(Report.self, from: text)
    }

    @Test func `a provider that asks for nothing has nothing but the system's programs and its state`() async throws {
        let found = try await report("")
        #expect(found.secret == "No such file or directory")
        #expect(found.read == "No such file or directory")
        #expect(found.writing == "No such file or directory")
        #expect(found.own == "Read-only file system" && found.system == "Read-only file system")
        #expect(found.temporary == "written")
        #expect(found.port == "ConnectionRefusedError")
        #expect(found.login == nil)
        #expect(found.processes <= 3)
        #expect(found.home == folder.appending("state/provider"))
        #expect(
            found.variables.allSatisfy { ["HOME", "PATH", "PWD", "LANG", "TZ"].contains($0) || $0.hasPrefix("LC_") }
        )
        // The last is that of the list itself.
        #expect(found.descriptors == ["0", "1", "2", "3"])
        #expect(found.root == "Read-only file system" && found.device == "Read-only file system")
        #expect(found.shared == "written")
        #expect(UInt64(found.rights, radix: 16) == 0)
        #expect(!found.environment.contains("COVE_BINARY") && found.environment.contains("PATH="))
    }

    @Test func `a confined provider that nobody asks for anything lives on, and yields to others`() async throws {
        let provider = try provider(try manifest("", program: Self.probe))
        try await provider.start()
        let processes = Self.processes(below: getpid()).filter { process in
            (try? String(contentsOfFile: "/proc/\(process)/cmdline", encoding: .utf8))?.contains(folder.path) == true
        }
        #expect(processes.count >= 2)
        try waitUntil("all of them yield") {
            try processes.allSatisfy { process in
                let stat = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
                return stat.split(separator: ")").last?.split(separator: " ")[16] == "5"
            }
        }
        // Threads that had started them would be gone by now, and they with those.
        try await Task.sleep(for: .seconds(7))
        #expect(processes.allSatisfy { kill($0, 0) == 0 })
        await provider.stop()
    }

    /// The processes that one has started, and those below them.
    private static func processes(below process: pid_t) -> [pid_t] {
        // One of another test's may have ended since it was listed.
        guard let threads = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task") else {
            return []
        }
        let children = threads.flatMap { thread in
            let text = try? String(contentsOfFile: "/proc/\(process)/task/\(thread)/children", encoding: .utf8)
            return (text ?? "").split(separator: " ").compactMap { pid_t($0) }
        }
        return children.flatMap { child in [child] + processes(below: child) }
    }

    @Test func `a folder that a provider may write to is there before it`() async throws {
        let provider = try provider(
            try manifest(", \"write\": [\"{write}\", \"\(folder.appending("new/folder"))\"]", program: Self.probe)
        )
        try await provider.start()
        await provider.stop()
        #expect(try System.statFollowing(folder.appending("new/folder")).st_mode & S_IFMT == S_IFDIR)
    }

    @Test func `memory that processes share, and files in it, count`() async throws {
        let program = """
            \(Self.greeting)
            import mmap
            held = mmap.mmap(-1, 100 << 20)
            for _ in range(100):
                held.write(b"x" * (1 << 20))
            time.sleep(1000)

            """
        let provider = try provider(try manifest(", \"memory\": \"64M\"", program: program))
        await #expect(throws: ProviderError.self) { try await provider.list(.root, page: nil) }
        await provider.stop()
        #expect(try contents(folder.appending("state/provider.log")).contains("and may have 64"))
    }

    @Test func `a provider has what its manifest asks for`() async throws {
        let found = try await report(
            """
            , "network": true, "secrets": true, "read": ["{read}", "{not-given}"], "write": ["{write}"], "processors": 1,
            "environment": ["HOME", "PATH"]
            """
        )
        #expect(found.secret == "No such file or directory")
        #expect(found.read == "bytes" && found.reading == "Read-only file system")
        #expect(found.writing == "written")
        #expect(found.port == "connected")
        #expect(found.login == ["user": "ada", "password": "secret"])
        #expect(found.processors == 1)
        #expect(try contents(folder.appending("write/f")) == "bytes!")
    }

    @Test func `a provider that is not confined has what its user has, and no login it did not ask for`() async throws {
        let found = try await report(", \"confined\": false")
        #expect(found.secret == "bytes" && found.writing == "written" && found.port == "connected")
        #expect(found.login == nil)
    }

    @Test(arguments: [
        ("held = bytearray(300 << 20)", "MemoryError"),
        ("import os; [os.fork() for _ in range(3)]; held = b'x' * (30 << 20)", "and may have 64"),
    ])
    func `a process that takes too much memory is ended`(script: String, words: String) async throws {
        let program = """
            \(Self.greeting)
            \(script)
            time.sleep(1000)

            """
        let provider = try provider(try manifest(", \"memory\": \"64M\"", program: program))
        let error = await #expect(throws: ProviderError.self) { try await provider.list(.root, page: nil) }
        #expect(error?.errno == .hostUnreachable)
        await provider.stop()
        let log = try contents(folder.appending("state/provider.log"))
        #expect(log.contains(words), "\(log)")
    }

    @Test(arguments: [
        ("", "ends too soon"),
        ("[]", "is a JSON object"),
        ("{}", "program is missing"),
        ("{\"program\": \"\"}", "program is missing"),
        ("{\"program\": 5}", "must be a text"),
        ("{\"program\": \"p\", \"netwrok\": true}", "netwrok is no member"),
        ("{\"program\": \"p\", \"network\": 1}", "must be true or false"),
        ("{\"program\": \"p\", \"memory\": \"1K\"}", "at least 16M"),
        ("{\"program\": \"p\", \"memory\": \"9e99G\"}", "must be a size"),
        ("{\"program\": \"p\", \"processors\": 0}", "between 1 and 1024"),
        ("{\"program\": \"p\", \"processors\": 1.5}", "must be a whole number"),
        ("{\"program\": \"p\", \"read\": [\"a\"]}", "begins with none of"),
        ("{\"program\": \"p\", \"read\": \"/\"}", "must be a list"),
        ("{\"program\": \"p\", \"read\": [1]}", "must be a list"),
        ("{\"program\": \"p\", \"environment\": [\"A=B\"]}", "no name of a variable"),
        ("{\"program\": \"a\\u0000b\"}", "must be a text"),
    ])
    func `a manifest with a mistake is named with it`(text: String, words: String) throws {
        let error = #expect(throws: SourceError.self) {
            try ProviderManifest(name: "m", file: "/m.json", text: Array(text.utf8))
        }
        #expect(error?.description.contains(words) == true, "\(String(describing: error))")
        #expect(error?.description.contains("/m.json") == true)
    }

    @Test func `a program beside much else is not confined with all of it`() throws {
        let manifest = try ProviderManifest(
            name: "m",
            file: "\(BaseDirectories.home)/m.json",
            text: Array("{\"program\": \"/usr/bin/true\"}".utf8)
        )
        var program = try ProviderProgram(manifest, name: "m", options: [:])
        program.path = BaseDirectories.home + "/true"
        let error = #expect(throws: SourceError.self) { try Confinement.command(program, state: nil) }
        #expect(error?.description.contains("a folder of its own") == true)
    }

    @Test func `a path of an option is written whole`() throws {
        let manifest = try manifest(", \"read\": [\"{secret}/..\", \"~/x\"]", program: "")
        #expect(
            try manifest.paths(manifest.readPaths, options: ["secret": "/a/b/c"])
                == ["/a/b", BaseDirectories.home + "/x"]
        )
        // A folder with much else is not given for one file in it.
        let own = BaseDirectories.home + "/a.zip"
        #expect(try manifest.paths([manifest.readPaths[0]], options: ["secret": own]) == [own])
        #expect(try manifest.paths([manifest.readPaths[0]], options: ["secret": "/a.zip"]) == ["/a.zip"])
        for broad in ["/", "/proc", "/tmp/..", BaseDirectories.home + "/."] {
            #expect(throws: SourceError.self) {
                try manifest.paths([manifest.readPaths[0]], options: ["secret": broad])
            }
        }
        // Of a link, and of what it leads to.
        let link = folder.appending("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder.appending("read/f"))
        #expect(
            try manifest.paths([manifest.readPaths[0]], options: ["secret": link]).sorted()
                == [folder.path, folder.appending("read")].sorted()
        )
        #expect(throws: SourceError.self) { try manifest.paths(manifest.readPaths, options: ["secret": "a"]) }
    }
}
