import CoveCore
import CoveTestSupport
import Foundation
import Glibc
import Synchronization
import Testing

@testable import CoveProviders

/// Processes that break the protocol, die, or say nothing: one clear error each, and the next attempt works.
@Suite(.timeLimit(.minutes(2)))
struct BrokenProviderTests {
    /// What a script needs to speak the protocol; `serve` answers hello and hands over what else comes.
    static let tools = """
        #!/usr/bin/python3
        import json, os, struct, sys, time
        def send(header, body=b""):
            text = header if isinstance(header, bytes) else json.dumps(header).encode()
            sys.stdout.buffer.write(struct.pack(">II", len(text), len(body)) + text + body)
            sys.stdout.buffer.flush()
        def receive():
            start = sys.stdin.buffer.read(8)
            if len(start) < 8:
                sys.exit(0)
            header, body = struct.unpack(">II", start)
            return json.loads(sys.stdin.buffer.read(header)), sys.stdin.buffer.read(body)
        def serve(answer, **hello):
            while True:
                header, body = receive()
                if header.get("call") == "hello":
                    send({"id": header["id"], "result": {"version": 1, **hello}})
                else:
                    answer(header.get("id"), header)
        def once(name):
            try:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL))
                return True
            except FileExistsError:
                return False
        file = {"id": "1", "name": "f", "kind": "file", "size": 10, "contentVersion": "v"}

        """

    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func provider(
        _ script: String,
        limits: ProviderSession.Limits = ProviderSession.Limits()
    ) throws -> ExternalProvider {
        let path = folder.appending("provider")
        try put(Self.tools + "here = \"\(folder.path)\"\n" + script + "\n", path)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
        let program = try #require(try ProviderProgram(source: "exec:\(path)"))
        return ExternalProvider(program, state: folder.path, limits: limits) { _ in }
    }

    /// What the first listing fails with.
    private func failure(
        _ script: String,
        limits: ProviderSession.Limits = ProviderSession.Limits()
    ) async throws -> String {
        let provider = try provider(script, limits: limits)
        let error = await #expect(throws: ProviderError.self) { try await provider.list(.root, page: nil) }
        await provider.stop()
        return error?.description ?? "-"
    }

    private func fetchFailure(_ answer: String) async throws -> String {
        let provider = try provider("def answer(id, header):\n    \(answer)\nserve(answer)")
        let item = RemoteReference(id: RemoteID("1"), path: RemotePath(unchecked: Array("f".utf8)))
        let error = await #expect(throws: ProviderError.self) {
            try await provider.fetch(item, version: ContentVersion("v"), range: 0..<10, into: MemorySink())
        }
        await provider.stop()
        return error?.description ?? "-"
    }

    @Test(arguments: [
        (
            "sys.stdout.write('hello, world, this is no frame'); sys.stdout.flush(); time.sleep(60)",
            "announces a header of"
        ),
        ("sys.stdout.buffer.write(b'\\0\\0\\0\\x08\\0\\0\\0\\0{\"i'); sys.stdout.flush()", "ended within a frame"),
        ("sys.exit(3)", "it has ended"),
        ("send(b'no json'); time.sleep(60)", "a header is no JSON"),
        ("send([1]); time.sleep(60)", "a header is no object"),
        ("receive(); send({'id': 99, 'result': {}}); time.sleep(60)", "none of those it was asked"),
        ("receive(); send({'id': 1, 'result': {'version': 7}}); time.sleep(60)", "speaks version 7 of the protocol"),
        ("receive(); send({'id': 1, 'result': 5}); time.sleep(60)", "its hello can't be read"),
        (
            "receive(); send({'id': 1, 'result': {'version': 1, 'purpose': 'x' * 201}}); time.sleep(60)",
            "a purpose has 1 to 200 bytes"
        ),
        (
            "receive(); send({'id': 1, 'result': {'version': 1, 'purpose': ''}}); time.sleep(60)",
            "a purpose has 1 to 200 bytes"
        ),
        (
            "receive(); send({'id': 1, 'credit': 5}); send({'id': 1, 'what': 5}); time.sleep(60)",
            "is none that there is"
        ),
    ])
    func `a process that greets wrongly is named with what it did`(script: String, words: String) async throws {
        let error = try await failure(script)
        // That it has ended is heard on either of two pipes.
        let others = words == "it has ended" ? [words, "it takes nothing any more"] : [words]
        #expect(error.contains("provider") && others.contains { error.contains($0) }, "\(error)")
    }

    @Test(arguments: [
        ("send({'id': id, 'result': {}})", "without items"),
        ("send({'id': id, 'result': {'items': [dict(file, contentVersion='')]}})", "a file needs a content version"),
        ("send({'id': id, 'result': {'items': [dict(file, kind='directory')]}})", "a directory has no content version"),
        ("send({'id': id, 'result': {'items': [dict(file, size=-1)]}})", "a size is negative"),
        ("send({'id': id, 'result': {'items': [dict(file, id='')]}})", "an id has 1 to 500 bytes"),
        ("send({'id': id, 'result': {'items': [{'name': 'f'}]}})", "items.0"),
        ("send({'id': id, 'result': {'items': [], 'next': 'x' * 501}})", "the next page has"),
        ("send({'id': id, 'error': {'kind': 'nonsense'}})", "can't be read"),
        ("send({'id': id, 'error': {'kind': 'cancelled'}})", "called it off by itself"),
        ("os.kill(os.getpid(), 9)", "it has ended"),
    ])
    func `a listing that can't be is refused, and the mount goes on`(answer: String, words: String) async throws {
        let error = try await failure("def answer(id, header):\n    \(answer)\nserve(answer)")
        #expect(error.contains("provider") && error.contains(words), "\(error)")
    }

    @Test func `what a process says of a failure goes into one short line`() async throws {
        let words = "'a' + chr(10) + chr(27) + 'b' * 1000"
        let error = try await failure(
            "def answer(id, header):\n    send({'id': id, 'error': {'kind': 'failed', 'message': \(words)}})\nserve(answer)"
        )
        #expect(error.contains("bbb") && error.count < 700)
        #expect(!error.unicodeScalars.contains { $0.value < 0x20 })
    }

    @Test(arguments: [
        (
            "send({'id': id, 'offset': 5}, b'12345'); send({'id': id, 'result': {}})",
            "bytes at 5, which it was not asked for"
        ),
        ("send({'id': id, 'offset': 0}, b'1' * 11); send({'id': id, 'result': {}})", "gave 11 bytes at 0"),
        ("send({'id': id, 'offset': 0}, b'12345'); send({'id': id, 'offset': 0}, b'12345')", "gave 5 bytes at 0"),
        ("send({'id': id, 'offset': 0}, b'12345'); send({'id': id, 'result': {}})", "gave 5 bytes less"),
        ("send({'id': id, 'offset': 0}, b''); send({'id': id, 'result': {}})", "gave 0 bytes at 0"),
        ("send({'id': id, 'offset': -9223372036854775808}, b'1')", "which it was not asked for"),
        ("send({'id': id, 'offset': 9223372036854775807}, b'1')", "which it was not asked for"),
    ])
    func `bytes that nobody asked for reach no file`(answer: String, words: String) async throws {
        #expect(try await fetchFailure(answer).contains(words))
    }

    @Test func `what waited when a process died fails, and the next attempt has a new one`() async throws {
        let provider = try provider(
            """
            def answer(id, header):
                if once(here + "/died"):
                    print("about to die", file=sys.stderr)
                    os._exit(7)
                send({"id": id, "result": {"items": [file]}})
            serve(answer)
            """
        )
        let error = await #expect(throws: ProviderError.self) { try await provider.list(.root, page: nil) }
        #expect(error?.errno == .hostUnreachable)
        #expect(try await provider.list(.root, page: nil).items.map(\.size) == [10])
        await provider.stop()
        let log = try contents(folder.appending("provider.log"))
        #expect(log.contains("about to die") && log.contains("exit status 7"))
    }

    @Test func `a process that can't stay is started later and later`() async throws {
        let provider = try provider("open(here + '/starts', 'a').write('x'); sys.exit(1)")
        for _ in 0..<50 { await #expect(throws: ProviderError.self) { try await provider.list(.root, page: nil) } }
        #expect(try contents(folder.appending("starts")).count <= 4)
    }

    @Test func `a process that greets and ends at once is started later and later`() async throws {
        let provider = try provider(
            """
            open(here + '/starts', 'a').write('x')
            header, body = receive()
            send({"id": header["id"], "result": {"version": 1}})
            """
        )
        for _ in 0..<50 { await #expect(throws: ProviderError.self) { try await provider.list(.root, page: nil) } }
        #expect(try contents(folder.appending("starts")).count <= 4)
        await provider.stop()
    }

    @Test func `an earlier content is whole, whatever the process says of its end`() async throws {
        let provider = try provider(
            "def answer(id, header):\n    send({'id': id, 'result': {'atEnd': True}})\nserve(answer)"
        )
        let past = RemoteVersion(id: "1", size: 10, modificationTime: .epoch, contentVersion: nil)
        let error = await #expect(throws: ProviderError.self) {
            try await provider.fetch(past, of: .root, into: MemorySink())
        }
        #expect(error?.description.contains("10 bytes less") == true)
        await provider.stop()
    }

    @Test func `a call of which nothing is heard fails, and a process that does not heed that is ended`() async throws {
        let limits = ProviderSession.Limits(silence: .seconds(2), cancellation: .milliseconds(300))
        let provider = try provider(
            """
            def answer(id, header):
                if header.get("call") == "quota":
                    send({"id": id, "result": {"total": os.getpid(), "available": 1}})
            serve(answer)
            """,
            limits: limits
        )
        let first = try await provider.quota()?.total
        await #expect(throws: ProviderError.timedOut) { try await provider.list(.root, page: nil) }
        // It is ended within a moment; whoever asks then has another one.
        var next = first
        while next == first {
            next = (try? await provider.quota())?.total ?? first
            try await Task.sleep(for: .milliseconds(20))
        }
        await provider.stop()
    }

    @Test func `an answer to a call that was called off is dropped, and the process stays`() async throws {
        let provider = try provider(
            """
            waiting = []
            def answer(id, header):
                if "cancel" in header:
                    send({"id": waiting[0], "offset": 0}, b"12345")
                    send({"id": waiting[0], "result": {}})
                elif header.get("call") == "fetch":
                    waiting.append(id)
                    open(here + "/asked", "w").close()
                else:
                    send({"id": id, "result": {"total": os.getpid(), "available": 1}})
            serve(answer)
            """
        )
        let process = try await provider.quota()?.total
        let item = RemoteReference(id: RemoteID("1"), path: RemotePath(unchecked: Array("f".utf8)))
        let sink = MemorySink()
        let fetch = Task { () -> ProviderError? in
            do throws(ProviderError) {
                try await provider.fetch(item, version: ContentVersion("v"), range: 0..<10, into: sink)
                return nil
            } catch {
                return error
            }
        }
        // Not in Swift's pool, which has few threads, and the call needs one.
        let asked = folder.appending("asked")
        try await blocking { try waitUntil("the process was asked") { FileManager.default.fileExists(atPath: asked) } }
        fetch.cancel()
        #expect(await fetch.value == .cancelled)
        #expect(try await provider.quota()?.total == process)
        #expect(sink.bytes == [])
        await provider.stop()
    }

    @Test(arguments: [
        ("send({'id': id, 'result': {'item': dict(file, size=5000000)}})", "did not have all"),
        (
            "size = header['parameters']['size'] - 1; rest(); send({'id': id, 'result': {'item': dict(file, size=size)}})",
            "of 5000000 bytes it has"
        ),
    ])
    func `a file is sent when the process had all of it and has all of it`(answer: String, words: String) async throws {
        let provider = try provider(
            """
            def rest():
                # What was sent before the credit is taken, then all that follows.
                while True:
                    header, body = receive()
                    if "end" in header:
                        return
                    send({"id": header["id"], "credit": len(body)})
            def answer(id, header):
                \(answer)
            serve(answer)
            """
        )
        let error = await #expect(throws: ProviderError.self) {
            _ = try await provider.create(
                ItemTemplate(kind: .file, metadata: ItemMetadata()),
                name: #require(FileName("f")),
                in: .root,
                content: MemorySource([UInt8](repeating: 1, count: 5_000_000))
            )
        }
        #expect(error?.description.contains(words) == true, "\(String(describing: error))")
        await provider.stop()
    }

    @Test func `a content is not read any more once its call has returned`() async throws {
        let provider = try provider(
            "def answer(id, header):\n    send({'id': id, 'error': {'kind': 'conflict'}}) if 'call' in header else None\nserve(answer)"
        )
        for _ in 0..<50 {
            let hasReturned = Atomic(false)
            var content = MemorySource([UInt8](repeating: 1, count: 5_000_000))
            content.onRead = { () throws(ProviderError) in
                let before = hasReturned.load(ordering: .sequentiallyConsistent)
                sched_yield()
                let after = hasReturned.load(ordering: .sequentiallyConsistent)
                #expect(!before && !after)
            }
            let source = content
            await #expect(throws: ProviderError.conflict(nil)) {
                try await provider.modify(
                    RemoteReference(id: RemoteID("1"), path: RemotePath(unchecked: Array("f".utf8))),
                    base: ContentVersion("v"),
                    metadata: ItemMetadata(),
                    content: source
                )
            }
            hasReturned.store(true, ordering: .sequentiallyConsistent)
        }
        await provider.stop()
    }

    @Test func `a process that ignores the end is ended, with all that it has started`() async throws {
        let provider = try provider(
            """
            import signal, subprocess
            child = subprocess.Popen(["sleep", "1000"])
            open(here + "/child", "w").write(str(child.pid))
            header, body = receive()
            send({"id": header["id"], "result": {"version": 1}})
            time.sleep(1000)
            """
        )
        try await provider.start()
        let child = try #require(pid_t(contents(folder.appending("child"))))
        await provider.stop()
        // A dead child of a dead parent may be a zombie until init has asked for it.
        try waitUntil("the child is gone") {
            let state = try? String(contentsOfFile: "/proc/\(child)/stat", encoding: .utf8)
            return state == nil || state?.contains(") Z ") == true
        }
    }

    @Test func `a flood on standard error is kept to two files of a mebibyte`() async throws {
        let provider = try provider(
            """
            def answer(id, header):
                for _ in range(600):
                    sys.stderr.write("x" * 9999 + chr(10))
                send({"id": id, "result": {"items": []}})
            serve(answer)
            """
        )
        #expect(try await provider.list(.root, page: nil).items.isEmpty)
        await provider.stop()
        for name in ["provider.log", "provider.log.1"] {
            #expect(try System.lstat(folder.appending(name)).st_size < 2 << 20)
        }
    }

    @Test func `what a process of another source says is not taken for the first one's`() async throws {
        let provider = try provider(
            """
            identity = "one" if once(here + "/first") else "two"
            def answer(id, header):
                os._exit(0) if identity == "one" else send({"id": id, "result": {"items": [file]}})
            serve(answer, identity=identity)
            """
        )
        try await provider.start()
        await #expect(throws: ProviderError.self) { try await provider.list(.root, page: nil) }
        let error = await #expect(throws: ProviderError.self) { try await provider.list(.root, page: nil) }
        #expect(error?.description.contains("another source than before") == true)
        await provider.stop()
    }
}
