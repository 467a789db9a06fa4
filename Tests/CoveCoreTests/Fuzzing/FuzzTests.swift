import CoveTestSupport
import Testing

@testable import CoveCore

/// What programs send to the daemon's socket and get from it.
@Suite(.timeLimit(.minutes(FuzzTarget.minutes))) struct FuzzTests {
    /// Texts, and a number of each kind.
    private struct Sample: Codable {
        var text: String?
        var truth: Bool?
        var tiny: Int8?
        var wide: Int64?
        var unsigned: UInt64?
        var double: Double?
        var float: Float?
        var list: [Sample?]?
        var named: [String: Sample]?
    }

    @Test func `json: what is read is written, and read again as the same`() async throws {
        try await FuzzTarget("json", inputs: 1000) { input in
            guard let value = try? JSONValue(parsing: input) else { return .refused }
            let text = value.bytes
            let again = try JSONValue(parsing: text)
            // Bytes, as texts of the same characters may have others.
            try FuzzProblem.unless(again == value && again.bytes == text, "\(value) is read as \(again)")
            _ = try Self.isStable(Sample.self, value)
            _ = try Self.isStable([String: [Double]].self, value)
            return .understood
        }.run()
    }

    @Test func `calls: what is understood is written as it was understood, and no path leads out`() async throws {
        try await FuzzTarget("calls", inputs: 700) { input in
            var understood = 0
            for message in try Self.messages(input) {
                guard let call = try? VarlinkCall(parsing: message) else { continue }
                let again = try VarlinkCall(parsing: Array(call.message.dropLast()))
                try FuzzProblem.unless(again == call && again.message == call.message, "\(call) became \(again)")
                for method in InterfaceTests.methods where "\(method.interface).\(method.name)" == call.method {
                    if try method.readsParameters(call.parameters) { understood += 1 }
                }
                for part in Self.parts(of: call.parameters) {
                    guard let path = try? part.decode(as: PathParameter.self).remotePath() else { continue }
                    let isInside = path.names.allSatisfy { FileName.problem(with: $0.bytes) == nil }
                    try FuzzProblem.unless(isInside && RemotePath(path.names) == path, "\(path) is a path")
                    try FuzzProblem.unless(try PathParameter(path).remotePath() == path, "\(path) is written otherwise")
                }
            }
            return understood > 0 ? .understood : .refused
        }.run()
    }

    @Test func `replies: what is understood is written as it was understood`() async throws {
        try await FuzzTarget("replies", inputs: 400) { input in
            var understood = 0
            for message in try Self.messages(input) {
                guard let reply = try? VarlinkReply(parsing: message) else { continue }
                let again = try VarlinkReply(parsing: Array(reply.message.dropLast()))
                try FuzzProblem.unless(again == reply && again.message == reply.message, "\(reply) became \(again)")
                if let name = reply.error {
                    let error = VarlinkError(name: name, parameters: reply.parameters)
                    _ = (error.errno, error.description)
                    understood += 1
                }
                for method in InterfaceTests.methods where try method.readsReply(reply.parameters) { understood += 1 }
            }
            return understood > 0 ? .understood : .refused
        }.run()
    }

    /// The messages of a stream, which are the same in whatever pieces it comes.
    private static func messages(_ stream: [UInt8]) throws -> [[UInt8]] {
        let stream = stream + [0]
        func cut(_ length: Int) throws -> [[UInt8]] {
            var framer = MessageFramer()
            var messages: [[UInt8]] = []
            for start in stride(from: 0, to: stream.count, by: length) {
                framer.append(stream[start..<min(stream.count, start + length)])
                while let message = try framer.next() { messages.append(message) }
            }
            return messages
        }
        let whole = try cut(stream.count)
        try FuzzProblem.unless(try cut(7) == whole, "pieces make other messages")
        return whole
    }

    /// A value and all that is in it.
    private static func parts(of value: JSONValue) -> [JSONValue] {
        switch value {
        case .array(let elements): [value] + elements.flatMap(parts)
        case .object(let members): [value] + members.values.flatMap(parts)
        default: [value]
        }
    }

    /// True for what has members of a message, which then is written and read again as the same.
    static func isStable<Message: Codable>(_: Message.Type, _ value: JSONValue) throws -> Bool {
        guard let read = try? value.decode(as: Message.self) else { return false }
        let written = try JSONValue(encoding: read)
        let again = try JSONValue(encoding: JSONValue(parsing: written.bytes).decode(as: Message.self))
        try FuzzProblem.unless(again.bytes == written.bytes, "\(Message.self): \(written) became \(again)")
        return written != .empty
    }
}
