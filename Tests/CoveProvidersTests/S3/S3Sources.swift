import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveProviders

/// The S3 servers under test, each with one process for all tests.
enum S3ServerKind: String, CaseIterable, CustomTestStringConvertible {
    case seaweedFS = "SeaweedFS"
    case juiceFS = "JuiceFS's S3"
    case rclone = "rclone's S3"

    var testDescription: String { rawValue }

    private static let started = [
        S3ServerKind.seaweedFS: Result { try TestServer.seaweedFS() },
        .juiceFS: Result { try TestServer.juiceFS() },
        .rclone: Result { try TestServer.rcloneS3() },
    ]

    func server() throws -> TestServer {
        guard let server = Self.started[self] else { throw CommandFailure("no \(rawValue)") }
        return try server.get()
    }
}

extension SourceKind {
    static let s3 = S3ServerKind.allCases.map { kind in
        SourceKind(testDescription: kind.rawValue) {
            let source = try S3Source(kind.server()).source
            // rclone removes a folder with its last object, at times below a new one.
            try await source.put("", S3Source.standing)
            return source
        }
    }
}

/// An empty prefix of a bucket.
struct S3Source: Sendable {
    /// What tests put beside all else, lest the prefix vanish.
    static let standing = ".cove/standing"

    let address: String
    let client: S3Client

    init(_ server: TestServer) throws {
        address = server.s3Source("\(DocumentID.random())")
        client = S3Client(try S3Address(address), login: { testCredentials }, try HTTPClient())
    }

    func provider(lateCleaning seconds: Int = 0) throws -> S3Provider {
        try S3Provider(address.replacingOccurrences(of: "late-cleaning=0", with: "late-cleaning=\(seconds)"))
    }

    /// The address of the same prefix behind another server.
    func address(through front: ScriptedServer) -> String {
        "\(address.prefix { $0 != "?" })?endpoint=http://127.0.0.1:\(front.port)&region=us-east-1&late-cleaning=0"
    }

    var source: TestSource {
        TestSource(
            provider: { try provider() },
            put: { text, name in
                var call = S3Call("PUT", client.address.prefix + Array(name.utf8))
                call.body = .bytes(Array(text.utf8))
                call.payload = Digest.hash(Array(text.utf8), .sha256).hexadecimal
                _ = try await client.send(call)
            },
            names: {
                let prefix = client.address.prefix
                return try await client.list(prefix, delimiter: false).objects.map {
                    String(decoding: $0.key.dropFirst(prefix.count), as: UTF8.self)
                }.filter { $0 != Self.standing }
            }
        )
    }
}

extension S3Address {
    init(_ text: String) throws {
        guard let source = SourceAddress(text) else { throw CommandFailure("\(text): no address") }
        try self.init(source)
    }
}

extension S3Provider {
    convenience init(
        _ text: String,
        editor: String? = nil,
        uploads: String? = nil,
        pieceSize: Int64 = S3Upload.pieceSize,
        copyLimit: Int64 = 5 << 30,
        patience: TimeSpan = .seconds(600),
        clock: @escaping @Sendable () -> MonotonicTime = System.boottime
    ) throws {
        let address = try #require(SourceAddress(text))
        try self.init(
            address,
            editor: editor,
            uploads: uploads,
            pieceSize: pieceSize,
            copyLimit: copyLimit,
            patience: patience,
            clock: clock,
            credentials: { testCredentials }
        )
    }
}
