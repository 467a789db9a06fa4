import CoveTestSupport
import Testing

@testable import CoveCore
@testable import CoveProviders

/// What servers and providers' programs answer.
@Suite(.timeLimit(.minutes(FuzzTarget.minutes))) struct FuzzTests {
    /// Where listings are asked for; a directory's name is not as it is in an address.
    private static let directory = RemotePath(unchecked: Array("d/ä b".utf8))

    @Test func `multistatus: in all pieces the same is found, and each name leads to what it names`() async throws {
        let source = try #require(SourceAddress("webdav://127.0.0.1/dav/r"))
        let provider = try WebDAVProvider(source, HTTPOptions(), credentials: { nil })
        try await FuzzTarget("multistatus", inputs: 400) { input in
            let (resources, isWhole) = try Self.inAnyPieces(input, Self.resources) { "\($0)" }
            for resource in resources {
                try FuzzProblem.unless(!resource.href.isEmpty, "something has no address")
                guard case .inside(let bytes) = provider.address.place(of: resource.href, in: Self.directory) else {
                    continue
                }
                guard let name = FileName(validating: bytes) else { continue }
                let path = Self.directory.appending(name)
                try FuzzProblem.unless(path.parent == Self.directory, "\(path) is elsewhere")
                let address = provider.address.url(path, isDirectory: resource.isCollection)
                let place = provider.address.place(of: Array(address.utf8), in: Self.directory)
                try FuzzProblem.unless("\(place)" == "\(DAVAddress.Place.inside(bytes))", "\(address) is \(place)")
                try Self.judge(provider.item(resource, path), name)
            }
            return isWhole && !resources.isEmpty ? .understood : .refused
        }.run()
    }

    @Test func `s3: in all pieces the same is found, and each item is one of the directory`() async throws {
        try await FuzzTarget("s3", inputs: 400) { input in
            let (listings, isWhole) = try Self.inAnyPieces(input, Self.listing) {
                "\($0.objects) \($0.prefixes) \($0.next ?? "")"
            }
            guard isWhole, let listing = listings.first else { return .refused }
            for names in [S3Names(), S3Names(keepsBackslashes: false), S3Names(keepsSlashes: false)] {
                var cursor = S3Cursor(path: Self.directory)
                let items = cursor.take(listing, of: Array("p/".utf8), names) { _ in }
                try FuzzProblem.unless(items.count <= listing.objects.count + listing.prefixes.count, "there are more")
                for item in items {
                    guard let name = FileName(validating: item.name) else { continue }
                    let path = Self.directory.appending(name)
                    try Self.judge(item, name)
                    // The key that this name has is one that was listed.
                    let key = Array("p/".utf8) + names.encode(name.bytes)
                    let isThere = listing.objects.contains { names.decode($0.key) == names.decode(key) }
                    let isPrefix = listing.prefixes.contains { names.decode($0) == names.decode(key + [0x2F]) }
                    try FuzzProblem.unless(isThere || isPrefix, "\(path) is not in the listing")
                }
            }
            return .understood
        }.run()
    }

    @Test func `frames: in all pieces the same is found, and written as it was`() async throws {
        try await FuzzTarget("frames", inputs: 1000) { input in
            let (frames, isWhole) = try Self.inAnyPieces(input, Self.frames) {
                $0.header.description + "\($0.body)"
            }
            let written = frames.flatMap { $0.head + $0.body }
            let (again, isWholeAgain) = try Self.frames(written, 1000)
            try FuzzProblem.unless(isWholeAgain && again == frames, "\(frames) became \(again)")
            return isWhole && !frames.isEmpty ? .understood : .refused
        }.run()
    }

    @Test func `headers: what is understood keeps the rules, and is written as it was understood`() async throws {
        try await FuzzTarget("headers", inputs: 600) { input in
            guard let value = try? JSONValue(parsing: input) else { return .refused }
            var understood = 0
            func read<Header: Codable>(_ type: Header.Type) throws -> Header? {
                guard let header = try? value.decode(as: type) else { return nil }
                let written = try JSONValue(encoding: header)
                if written != .empty { understood += 1 }
                let again = try JSONValue(encoding: JSONValue(parsing: written.bytes).decode(as: type))
                try FuzzProblem.unless(again.bytes == written.bytes, "\(written) became \(again)")
                return header
            }
            _ = try read(HelloParameters.self)
            let hello = try read(HelloResult.self)
            let calls = hello?.capabilities?.capabilities.parallelChanges ?? 1
            try FuzzProblem.unless((1...64).contains(calls), "\(calls) changes at a time")
            try Self.judge(try read(CallParameters.self))
            let result = try read(CallResult.self)
            for item in (result?.items ?? []) + [result?.item].compactMap(\.self) { try Self.judge(item) }
            for event in result?.events ?? [] { try Self.judge(event) }
            for version in result?.versions ?? [] {
                guard let version = try? version.version() else { continue }
                try FuzzProblem.unless(version.size >= 0 && !version.id.isEmpty, "\(version)")
                try FuzzProblem.unless(try WireVersion(version).version() == version, "\(version) is written otherwise")
            }
            if let error = try read(WireError.self) {
                let told = error.error(of: "p")
                let words = told.description
                try FuzzProblem.unless(words.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "\(words) has lines")
                _ = WireError(told)
            }
            return understood > 0 ? .understood : .refused
        }.run()
    }
}

extension FuzzTests {
    /// What is found in an answer and whether it was read to its end, which is the same in whatever pieces it comes.
    private static func inAnyPieces<Found>(
        _ input: [UInt8],
        _ read: (_ input: [UInt8], _ length: Int) throws -> (found: [Found], isWhole: Bool),
        _ shown: (Found) -> String
    ) throws -> (found: [Found], isWhole: Bool) {
        let whole = try read(input, max(1, input.count))
        let length = 1 + input.count % 13
        let pieces = try read(input, length)
        let isSame = pieces.isWhole == whole.isWhole && pieces.found.map(shown) == whole.found.map(shown)
        try FuzzProblem.unless(isSame, "pieces of \(length) are \(pieces), the whole is \(whole)")
        return whole
    }

    /// Hands out an input in pieces of a length, until one is refused.
    private static func each(
        _ length: Int,
        of input: [UInt8],
        _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        try input.withUnsafeBytes { bytes in
            for start in stride(from: 0, to: bytes.count, by: length) {
                try body(UnsafeRawBufferPointer(rebasing: bytes[start..<min(bytes.count, start + length)]))
            }
        }
    }

    private static func resources(_ input: [UInt8], _ length: Int) throws -> ([DAVResource], Bool) {
        var resources: [DAVResource] = []
        let scanner = XMLScanner(MultistatusReader { resources.append($0) })
        do {
            try each(length, of: input) { try scanner.parse($0) }
            try scanner.finish()
        } catch {
            guard error is ProviderError else { throw error }
            return (resources, false)
        }
        return (resources, true)
    }

    private static func listing(_ input: [UInt8], _ length: Int) throws -> ([S3Listing], Bool) {
        let listing = S3Listing(.seconds(60))
        do {
            try listing.begin(HTTPHead(status: 200))
            try each(length, of: input) { try listing.receive($0) }
            try listing.finish()
        } catch {
            guard error is ProviderError else { throw error }
            return ([], false)
        }
        return ([listing], true)
    }

    private static func frames(_ input: [UInt8], _ length: Int) throws -> ([ProviderFrame], Bool) {
        var decoder = FrameDecoder()
        var frames: [ProviderFrame] = []
        do {
            try each(length, of: input) { piece in
                var taken = 0
                while taken < piece.count {
                    taken += try decoder.take(UnsafeRawBufferPointer(rebasing: piece[taken...]))
                    while let frame = try decoder.next() { frames.append(frame) }
                }
            }
        } catch {
            guard error is FrameError else { throw error }
            return (frames, false)
        }
        return (frames, !decoder.isInsideFrame)
    }

    /// What a server's item has to be, whatever the server said.
    private static func judge(_ item: RemoteItem, _ name: FileName) throws {
        try FuzzProblem.unless(item.name == name.bytes || item.name == name.bytes + [0x2F], "\(item) has another name")
        try FuzzProblem.unless((1...500).contains(item.id.bytes.count), "\(item) has an id of \(item.id.bytes.count)")
        let length = max(item.contentVersion.bytes.count, item.metadataVersion.bytes.count)
        try FuzzProblem.unless(length <= 128, "\(item) has a version of \(length) bytes")
        try FuzzProblem.unless((item.kind == .directory) == (item.contentVersion == .directory), "\(item)")
        try FuzzProblem.unless(item.kind != .directory || item.size == 0, "\(item) has a size")
    }

    private static func judge(_ item: WireItem) throws {
        guard let made = try? item.item() else { return }
        try FuzzProblem.unless(made.size >= 0 && (1...500).contains(made.id.bytes.count), "\(made)")
        try FuzzProblem.unless(max(made.contentVersion.bytes.count, made.metadataVersion.bytes.count) <= 128, "\(made)")
        try FuzzProblem.unless(made.kind != .directory || made.contentVersion == .directory, "\(made)")
        try FuzzProblem.unless(try WireItem(made)?.item() == made, "\(made) is written otherwise")
    }

    private static func judge(_ event: WireChange) throws {
        guard let change = try? event.change() else { return }
        switch change {
        case .updated(_, let path), .removed(let path), .directoryChanged(let path):
            let isInside = path.names.allSatisfy { FileName.problem(with: $0.bytes) == nil }
            try FuzzProblem.unless(isInside && RemotePath(path.names) == path, "\(path) is a path")
        }
        try FuzzProblem.unless(try WireChange(change).change() == change, "\(change) is written otherwise")
    }

    private static func judge(_ parameters: CallParameters?) throws {
        for reference in [parameters?.item, parameters?.directory].compactMap(\.self) {
            guard let made = try? reference.reference() else { continue }
            let isInside = made.path.names.allSatisfy { FileName.problem(with: $0.bytes) == nil }
            try FuzzProblem.unless(isInside && RemotePath(made.path.names) == made.path, "\(made.path) is a path")
            try FuzzProblem.unless(try WireReference(made).reference() == made, "\(made) is written otherwise")
        }
    }
}
