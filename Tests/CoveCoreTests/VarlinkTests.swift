import CoveTestSupport
import Glibc
import Synchronization
import Testing

@testable import CoveCore

/// Client and server over a real socket.
@Suite(.timeLimit(.minutes(2))) struct VarlinkTests {
    @Test func `a call gets its reply`() async throws {
        try await onThread {
            let service = try TestService()
            let client = try service.client()
            for number in 0..<50 {
                let reply: TestService.Number = try client.call(
                    "test.Service.Double",
                    TestService.Number(value: number)
                )
                #expect(reply.value == number * 2)
            }
        }
    }

    @Test func `the service describes itself`() async throws {
        try await onThread {
            struct Info: Decodable { var vendor: String, product: String, version: String, interfaces: [String] }
            struct Description: Decodable { var description: String }
            let service = try TestService()
            let client = try service.client()
            let info: Info = try client.call("org.varlink.service.GetInfo")
            #expect(info.product == "Test" && info.interfaces == ["org.varlink.service", "test.Service"])
            for name in info.interfaces {
                let reply: Description = try client.call(
                    "org.varlink.service.GetInterfaceDescription",
                    ["interface": name]
                )
                #expect(reply.description.contains("interface \(name)\n"))
            }
        }
    }

    @Test func `what is wrong with a call is told, and the connection goes on`() async throws {
        try await onThread {
            let service = try TestService()
            let client = try service.client()
            let wrong: [(String, JSONValue, VarlinkError)] = [
                ("test.Service.Nothing", .empty, .methodNotFound("test.Service.Nothing")),
                ("test.Other.Double", .empty, .interfaceNotFound("test.Other")),
                ("Double", .empty, .methodNotFound("Double")),
                ("test.Service.Double", .empty, .invalidParameter("value")),
                ("test.Service.Double", .object(["value": .string("x")]), .invalidParameter("value")),
                ("test.Service.Fail", .empty, VarlinkError(name: "test.Service.Broken")),
                ("test.Service.Many", .object(["value": .integer(1)]), .expectedMore),
            ]
            for (method, parameters, expected) in wrong {
                #expect(throws: VarlinkClient.Failure.error(expected)) {
                    let _: VarlinkNothing = try client.call(method, try parameters.decode(as: AnyMessage.self))
                }
            }
            let reply: TestService.Number = try client.call("test.Service.Double", TestService.Number(value: 2))
            #expect(reply.value == 4)
        }
    }

    @Test func `more brings every reply in order, however slow the reader is`() async throws {
        try await onThread {
            let service = try TestService()
            let client = try service.client()
            var (received, isAhead): ([Int], Bool) = ([], true)
            let last: TestService.Number = try client.stream("test.Service.Many", TestService.Number(value: 2000)) {
                (reply: TestService.Number) in
                // The service is a hundred replies ahead, or has sent all.
                let ahead = min(received.count + 100, 2000)
                guard isAhead else { return }
                let wait: Void? = try? waitUntil("\(ahead) are sent") {
                    service.waiting.load(ordering: .relaxed) >= ahead
                }
                isAhead = wait != nil
                received.append(reply.value)
            }
            #expect(isAhead)
            #expect(received == Array(0..<2000) && last.value == 2000)
        }
    }

    @Test func `oneway calls get no reply`() async throws {
        try await onThread {
            let service = try TestService()
            let socket = try RawConnection(service.path)
            socket.send(VarlinkCall(method: "test.Service.Fail", oneway: true).message)
            socket.send(VarlinkCall(method: "test.Service.Nothing", oneway: true).message)
            socket.send(TestService.double(21))
            #expect(socket.receive().map { String(decoding: $0, as: UTF8.self) } == #"{"parameters":{"value":42}}"#)
        }
    }

    @Test func `calls sent at once are answered in order, byte by byte as well`() async throws {
        try await onThread {
            let service = try TestService()
            let socket = try RawConnection(service.path)
            socket.send((0..<100).flatMap { TestService.double($0) })
            for number in 0..<100 { #expect(socket.receive() == TestService.doubled(number)) }
            for byte in TestService.double(5) { socket.send([byte]) }
            #expect(socket.receive() == TestService.doubled(5))
        }
    }

    @Test func `a half message ends the connection, a resting one does not`() async throws {
        try await onThread {
            var limits = VarlinkServer.Limits()
            limits.halfMessage = .milliseconds(100)
            let service = try TestService(limits)
            let resting = try RawConnection(service.path)
            let half = try RawConnection(service.path)
            let started = System.monotonic()
            half.send(Array("{\"method\"".utf8))
            #expect(half.receive() == nil)
            #expect(System.monotonic() - started < .seconds(5))
            resting.send(TestService.double(1))
            #expect(resting.receive() == TestService.doubled(1))
        }
    }

    @Test func `a connection that rests too long is closed`() async throws {
        try await onThread {
            var limits = VarlinkServer.Limits()
            limits.idle = .milliseconds(100)
            let service = try TestService(limits)
            let started = System.monotonic()
            #expect(try RawConnection(service.path).receive() == nil)
            #expect(System.monotonic() - started < .seconds(5))
        }
    }

    @Test func `messages beyond the limit end the connection`() async throws {
        try await onThread {
            let service = try TestService()
            let socket = try RawConnection(service.path)
            socket.send([UInt8](repeating: 0x20, count: MessageFramer.maximumLength + 2))
            #expect(socket.refusal()?.contains("longer than 1048576 bytes; make it several calls") == true)
            #expect(socket.receive() == nil)
            let mistaken = try RawConnection(service.path)
            mistaken.send(Array(#"{"method":1}"#.utf8) + [0])
            #expect(mistaken.refusal()?.contains("method: is missing") == true)
            #expect(mistaken.receive() == nil)
            let client = try service.client()
            #expect(throws: VarlinkClient.Failure.error(.expectedMore)) {
                let _: AnyMessage = try client.call("test.Service.Giant")
            }
        }
    }

    @Test func `random bytes never harm the service`() async throws {
        try await onThread {
            let seed = UInt64.random(in: 0...UInt64(UInt32.max))
            print("Varlink test: seed \(seed)")
            var random = SeededGenerator(seed: seed)
            let service = try TestService()
            for _ in 0..<200 {
                let socket = try RawConnection(service.path)
                var bytes =
                    random.oneIn(2) ? TestService.double(1) : random.bytes(Int.random(in: 1..<500, using: &random))
                for _ in 0..<3 {
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
                }
                socket.send(bytes)
            }
            let reply: TestService.Number = try service.client().call(
                "test.Service.Double",
                TestService.Number(value: 4)
            )
            #expect(reply.value == 8)
        }
    }

    @Test func `one connection too many is told so, and frees its place`() async throws {
        try await onThread {
            var limits = VarlinkServer.Limits()
            limits.connections = 8
            let service = try TestService(limits)
            var held: [RawConnection] = []
            for _ in 0..<8 {
                let socket = try RawConnection(service.path)
                socket.send(TestService.double(1))
                #expect(socket.receive() == TestService.doubled(1))
                held.append(socket)
            }
            for _ in 0..<100 {
                let extra = try RawConnection(service.path)
                let answer = extra.receive().map { String(decoding: $0, as: UTF8.self) }
                #expect(answer?.contains("io.cove.TooManyConnections") == true)
                #expect(answer?.contains("8 connections are open; end some") == true)
            }
            held.removeAll()
            try waitUntil("a place is free") {
                let socket = try RawConnection(service.path)
                socket.send(TestService.double(3))
                return socket.receive() == TestService.doubled(3)
            }
        }
    }

    @Test func `many clients at once are all served`() async throws {
        try await onThread {
            let service = try TestService()
            let done = Atomic(0)
            for number in 0..<60 {
                try BlockingThread.start {
                    let client = try? service.client()
                    for step in 0..<20 {
                        let reply = try? client?.call(
                            "test.Service.Double",
                            TestService.Number(value: number * step),
                            as: TestService.Number.self
                        )
                        #expect(reply?.value == number * step * 2)
                    }
                    done.add(1, ordering: .relaxed)
                }
            }
            try waitUntil("all are served") { done.load(ordering: .relaxed) == 60 }
        }
    }

    @Test func `a caller that goes away cancels its call`() async throws {
        try await onThread {
            let service = try TestService()
            do {
                let socket = try RawConnection(service.path)
                socket.send(VarlinkCall(method: "test.Service.Wait").message)
                try waitUntil("the call waits") { service.waiting.load(ordering: .relaxed) == 1 }
            }
            try waitUntil("the call has ended") { service.waiting.load(ordering: .relaxed) == 0 }
        }
    }

    @Test func `a server that stops does not wait for a call that lasts`() async throws {
        try await onThread {
            let service = try TestService()
            let raw = try RawConnection(service.path)
            raw.send(VarlinkCall(method: "test.Service.Attend").message)
            try waitUntil("the call lasts") { service.waiting.load(ordering: .relaxed) == 1 }
            let start = ContinuousClock.now
            service.server.stop(grace: .seconds(40))
            #expect(ContinuousClock.now - start < .seconds(20))
            #expect(raw.receive() == nil)
        }
    }

    @Test func `a call whose reply nobody read is undone`() async throws {
        try await onThread {
            let call = VarlinkCall(method: "test.Service.Grant", parameters: .object([:])).message
            for isRead in [false, true] {
                let service = try TestService()
                var raw: RawConnection? = try RawConnection(service.path)
                raw?.send(call)
                try raw?.awaitReply()
                if isRead { #expect(raw?.receive() != nil) }
                raw = nil
                try waitUntil("the connection has ended") { service.waiting.load(ordering: .relaxed) >= 10 }
                #expect(service.waiting.load(ordering: .relaxed) == (isRead ? 11 : 10))
            }
        }
    }

    @Test func `a caller that only stops sending still gets its reply`() async throws {
        try await onThread {
            let service = try TestService()
            let socket = try RawConnection(service.path)
            socket.send(TestService.double(8))
            socket.endSending()
            #expect(socket.receive() == TestService.doubled(8))
            #expect(socket.receive() == nil)
        }
    }

    @Test func `a client gives up after its timeout, and is of no use then`() async throws {
        try await onThread {
            let service = try TestService()
            let client = try service.client()
            #expect(throws: VarlinkClient.Failure.timedOut) {
                let _: VarlinkNothing = try client.call("test.Service.Wait", timeout: .milliseconds(50))
            }
            #expect(throws: VarlinkClient.Failure.connection(.notConnected)) {
                let _: TestService.Number = try client.call("test.Service.Double", TestService.Number(value: 1))
            }
        }
    }

    @Test func `stopping ends every connection and takes the socket away`() async throws {
        try await onThread {
            let service = try TestService()
            let client = try service.client()
            let _: TestService.Number = try client.call("test.Service.Double", TestService.Number(value: 1))
            service.server.stop()
            #expect(client.waitForEnd(timeout: .seconds(5)))
            #expect(throws: Errno.noSuchEntry) { try System.lstat(service.path) }
        }
    }

    @Test func `a socket nobody answers at is replaced, a live one is not`() async throws {
        try await onThread {
            let folder = try TemporaryDirectory()
            let path = folder.appending("s")
            System.close(try UnixSocket.listen(at: path))
            let first = TestService.server()
            try first.start(at: path)
            #expect(try System.lstat(path).st_mode & 0o777 == 0o600)
            #expect(throws: Errno(EADDRINUSE)) { try TestService.server().start(at: path) }
            first.stop()
        }
    }

    @Test func `a socket may be deeper than its address is long`() async throws {
        try await onThread {
            let folder = try TemporaryDirectory()
            let deep = folder.appending(String(repeating: "d", count: 200))
            try System.mkdir(deep)
            let server = TestService.server()
            try server.start(at: deep + "/cove.sock")
            defer { server.stop() }
            let client = try VarlinkClient(DaemonAddress(socket: deep + "/cove.sock"))
            let reply: TestService.Number = try client.call("test.Service.Double", TestService.Number(value: 6))
            #expect(reply.value == 12)
        }
    }

    @Test func `no service is an error, not a wait`() async throws {
        try await onThread {
            #expect(throws: VarlinkClient.Failure.connection(.noSuchEntry)) {
                _ = try VarlinkClient(DaemonAddress(socket: "/nonexistent/cove.sock"))
            }
        }
    }
}
