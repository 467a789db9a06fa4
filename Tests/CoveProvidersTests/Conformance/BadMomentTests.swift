import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// What one bad answer makes of the look at what a server can do: the start fails, or finds the same; and what was made by
/// a device that found something else.
@Suite(.timeLimit(.minutes(30))) struct BadMomentTests {
    /// What goes wrong with one request.
    private enum Fault: CaseIterable {
        case unauthorized, precondition, failure, unavailable, full, hangUp

        /// The answer instead of the server's own; nil where it would say the same.
        func answer(to request: ScriptedServer.Request) -> ScriptedServer.Answer? {
            switch self {
            case .unauthorized: ScriptedServer.answer(401)
            case .precondition:
                // Where there is a condition it may be true.
                request.lines.contains { $0.lowercased().hasPrefix("if-") } || request.value("overwrite") != nil
                    ? nil : ScriptedServer.answer(412)
            case .failure: ScriptedServer.answer(500)
            case .unavailable: ScriptedServer.answer(503)
            case .full: ScriptedServer.answer(507)
            case .hangUp: .hangUp
            }
        }
    }

    /// Which request of a start is answered wrongly, and how; a start without a fault where there is none.
    private final class Moment: Sendable {
        private let state: Mutex<(fault: Fault?, at: Int, count: Int)>

        init() { state = Mutex((nil, 0, 0)) }

        /// How many requests there were since the last call.
        func begin(_ fault: Fault?, at number: Int) -> Int {
            state.withLock { state in
                defer { state = (fault, number, 0) }
                return state.count
            }
        }

        func answer(_ request: ScriptedServer.Request) -> ScriptedServer.Answer? {
            state.withLock { state in
                state.count += 1
                return state.count == state.at ? state.fault?.answer(to: request) : nil
            }
        }
    }

    /// Starts new providers, one fault each and one after the other, as some servers lose count of their locks when many ask, and
    /// compares what they find with what is found without.
    private func compare<Found: Equatable & Sendable>(
        _ address: @Sendable (UInt16) async throws -> String,
        to port: UInt16,
        _ start: @Sendable (String) async throws -> Found
    ) async throws {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        print("a bad moment: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let moment = Moment()
        let front = try ScriptedServer { moment.answer($0) ?? .handOn(port) }
        let address = try await address(front.port)
        let honest = try await start(address)
        let requests = moment.begin(nil, at: 0)
        #expect(requests > 10)
        var found = 0
        for _ in 0..<(triesAllMoments ? 240 : 24) {
            let fault = Fault.allCases.randomElement(using: &random) ?? .failure
            let number = Int.random(in: 1...requests, using: &random)
            _ = moment.begin(fault, at: number)
            let before = front.exchanges.count
            do {
                let other = try await start(address)
                #expect(
                    other == honest,
                    """
                    seed \(seed): \(fault) instead of answer \(number)
                    \(front.exchanges[before...].map { "\($0.request.method) \($0.request.target) \($0.status)" }.joined(separator: "\n"))
                    """
                )
                found += 1
            } catch is ProviderError {
                // It is started again later.
            }
        }
        #expect(found > 0)
    }

    @Test func `what is found twice, or without a doubt, is believed`() async throws {
        typealias Look = (result: Result<String, ProviderError>, isSure: Bool)
        func find(_ looks: [Look]) async throws -> (found: Result<String, ProviderError>, looks: Int) {
            var rest = looks[...]
            do throws(ProviderError) {
                let found = try await tryOut { rest.removeFirst() }
                return (.success(found), looks.count - rest.count)
            } catch {
                return (.failure(error), looks.count - rest.count)
            }
        }
        func doubted(_ text: String) -> Look { (.success(text), false) }
        let failed = ProviderError.failed("no", nil)
        for (looks, found, count) in [
            ([(.success("a"), true)], .success("a"), 1),
            ([doubted("a"), doubted("a")], .success("a"), 2),
            ([doubted("a"), doubted("b"), doubted("a")], .success("a"), 3),
            ([doubted("a"), (.success("b"), true)], .success("b"), 2),
            ([(.failure(failed), false), (.success("a"), true)], .success("a"), 2),
            ([(.failure(failed), true)], .failure(failed), 1),
            ([(.failure(.cancelled), false)], .failure(.cancelled), 1),
            (Array(repeating: (.failure(failed), false), count: 4), .failure(failed), 4),
        ] as [([Look], Result<String, ProviderError>, Int)] {
            let outcome = try await find(looks)
            #expect(outcome.found == found && outcome.looks == count)
        }
        let never = try await find(["a", "b", "c", "d"].map(doubted))
        #expect(never.looks == 4 && (try? never.found.get()) == nil)
    }

    @Test(arguments: S3ServerKind.allCases)
    func `a bad answer is not taken for what a bucket can do`(kind: S3ServerKind) async throws {
        let server = try kind.server()
        try await compare(
            { port in
                let source = try S3Source(server)
                try await source.source.put("", S3Source.standing)
                return "\(source.address.prefix { $0 != "?" })?endpoint=http://127.0.0.1:\(port)&region=us-east-1"
            },
            to: server.port
        ) {
            let provider = try S3Provider($0)
            try await provider.start()
            let features = provider.features
            await provider.stop()
            return features
        }
    }

    @Test(arguments: ["Apache", "nginx", "rclone"])
    func `a bad answer is not taken for what a WebDAV server can do`(name: String) async throws {
        let server = try name == "Apache" ? TestServer.apache() : name == "nginx" ? .nginx() : .rcloneWebDAV()
        try await compare(
            { port in
                let name = "\(DocumentID.random())"
                try server.makeCollection(name)
                return "webdav://127.0.0.1:\(port)/\(name)/"
            },
            to: server.port
        ) {
            let provider = try ProviderFactory.make(source: $0, access: testAccess)
            let dav = try #require(provider as? WebDAVProvider)
            try await dav.start()
            return try dav.server()
        }
    }

    /// rclone has no keys that end with a slash.
    private static let marked: [(S3ServerKind, [String])] =
        S3ServerKind.allCases.map { ($0, ["d/.cove-directory"]) }
        + [S3ServerKind.seaweedFS, .juiceFS].flatMap { [($0, ["d/"]), ($0, ["d/", "d/.cove-directory"])] }

    @Test(arguments: marked)
    func `an empty directory goes, whichever object stands for it`(kind: S3ServerKind, keys: [String]) async throws {
        let source = try S3Source(kind.server())
        try await source.source.put("", S3Source.standing)
        for key in keys { try await source.source.put("", key) }
        let provider = try source.provider()
        try await provider.start()
        #expect(try await provider.find("d").kind == .directory)
        try await provider.delete(provider.reference("d"), base: .directory)
        #expect(try await provider.names() == [])
        #expect(try await source.source.names().filter { $0.hasPrefix("d") } == [])
        await provider.stop()
    }
}
