public import CoveCore

/// Tries whether a provider does what Cove relies on, in a folder at the source that is removed again.
///
/// At a source that can't be written to it is tried with what is there, and nothing is changed.
public struct Conformance: Sendable {
    /// What became of one check.
    public struct Outcome: Sendable {
        /// What a provider that passes promises.
        public let promise: String
        /// Why it failed; nil where it passed.
        public let failure: String?
        /// True where the provider says that it can't do this.
        public let isSkipped: Bool
        /// The last calls with their answers, of a check that failed.
        public let calls: [String]
    }

    private let provider: any Provider
    private static let checks =
        ConformanceCheck.reading + ConformanceCheck.changing + ConformanceCheck.following + ConformanceCheck.pictures
        + ConformanceCheck.identifiers

    /// Takes a provider that has been started.
    public init(_ provider: any Provider) { self.provider = provider }

    /// Runs all checks, and tells of each when it is over; false where one failed.
    ///
    /// One that can't be written to and has no file can't be checked: that is `unsupported`.
    public func run(_ tell: (Outcome) -> Void) async throws(ProviderError) -> Bool {
        if provider.capabilities.readOnly { return try await runWithWhatIsThere(tell) }
        let name = FileName(unchecked: Array("cove-check-\(DocumentID.random())".utf8))
        let root = try await makeDirectory(name, in: .root)
        // What is listed in it is deleted at the end: one that lists other things there is not trusted with that.
        let stranger = await list(RemoteReference(id: root.id, path: RemotePath([name]))).first
        if let stranger {
            let what = String(decoding: stranger.name, as: UTF8.self)
            throw .failed("it lists \(what) in a folder that was just made; nothing was tried", nil)
        }
        var passes = true
        for (index, check) in Self.checks.enumerated() {
            if !check.isDue(provider.capabilities) {
                tell(Outcome(promise: check.promise, failure: nil, isSkipped: true, calls: []))
                continue
            }
            let place = RemoteReference(id: root.id, path: RemotePath([name]))
            let inner = FileName(unchecked: Array("\(index)".utf8))
            let bench = CheckBench(provider, folder: place.path.appending(inner))
            let outcome = await outcome(of: check, bench) { _ = try await makeDirectory(inner, in: place) }
            passes = passes && outcome.failure == nil
            tell(outcome)
        }
        // What was called off may be cleaned up by the provider yet, and is in the way till then.
        for _ in 0..<10 {
            await remove(RemotePath([name]), depth: 0)
            guard (try? await provider.lookup(name, in: .root)) != nil else { break }
            try? await Task.sleep(for: TimeSpan.seconds(1))
        }
        return passes
    }

    private func runWithWhatIsThere(_ tell: (Outcome) -> Void) async throws(ProviderError) -> Bool {
        let known = try await ExistingItems(CheckBench(provider, folder: .root))
        if known.files.isEmpty {
            throw .unsupported("it can't be written to, and no file was found with which anything could be tried")
        }
        var passes = true
        for check in ConformanceCheck.existing(known) {
            let outcome =
                check.isDue(provider.capabilities)
                ? await outcome(of: check, CheckBench(provider, folder: .root)) {}
                : Outcome(promise: check.promise, failure: nil, isSkipped: true, calls: [])
            passes = passes && outcome.failure == nil
            tell(outcome)
        }
        return passes
    }

    /// What becomes of a check, once its folder is there.
    private func outcome(
        of check: ConformanceCheck,
        _ bench: CheckBench,
        after preparation: () async throws -> Void
    ) async -> Outcome {
        var failure: String?
        do {
            try await preparation()
            try await check.run(bench)
        } catch let error as ConformanceCheck.Failure {
            failure = error.why
        } catch {
            failure = "a call that should have worked failed: \(error)"
        }
        let calls = failure == nil ? [] : bench.lastCalls
        return Outcome(promise: check.promise, failure: failure, isSkipped: false, calls: calls)
    }

    private func makeDirectory(
        _ name: FileName,
        in directory: RemoteReference
    ) async throws(ProviderError) -> RemoteItem {
        let template = ItemTemplate(kind: .directory, metadata: ItemMetadata())
        return try await provider.create(template, name: name, in: directory, content: nil)
    }

    /// Removes what the checks have left, as far as the provider lets it.
    private func remove(_ path: RemotePath, depth: Int) async {
        guard depth < 8 else { return }
        let reference = RemoteReference(id: nil, path: path)
        // One that lists a part only is asked again.
        for _ in 0..<20 {
            let items = await list(reference)
            if items.isEmpty { break }
            for item in items {
                let inner = path.appending(FileName(unchecked: item.name))
                if item.kind == .directory {
                    await remove(inner, depth: depth + 1)
                } else {
                    try? await provider.delete(RemoteReference(id: nil, path: inner), base: item.contentVersion)
                }
            }
        }
        try? await provider.delete(reference, base: .directory)
    }

    private func list(_ directory: RemoteReference) async -> [RemoteItem] {
        var items: [RemoteItem] = []
        var page: Page?
        var pages = 0
        repeat {
            pages += 1
            guard items.count < 10_000, pages < 10_000, let listing = try? await provider.list(directory, page: page)
            else { break }
            items += listing.items
            page = listing.next
        } while page != nil
        return items
    }
}
