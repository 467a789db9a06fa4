internal import CoveCore
internal import Synchronization

/// What a server was seen to do, by trying it under a name of Cove's own.
struct S3Features: Sendable, Equatable {
    /// PUT with `If-None-Match: *` and with `If-Match` is refused when it must be.
    var putsConditionally = false
    /// So is DELETE with `If-Match`.
    var deletesConditionally = false
    /// And a copy onto what is there, with `If-None-Match: *`.
    var copiesConditionally = false
    /// `If-Match` wants the ETag without its quotes.
    var wantsBareTags = false
    /// The ETag of bytes sent in one piece is their MD5.
    var tagIsDigest = false
    /// It refuses bytes whose SHA-256 is another one, and gives that back with the object.
    var keepsChecksums = false
    /// It keeps the objects that others replace or delete.
    var keepsVersions = false
    /// What takes a file away there.
    var takesFiles: FileTaking = []
    /// Minutes after the last object of a folder was deleted it deletes the folder, and a file that has taken its name, which
    /// SeaweedFS does; nothing else is known to look like it.
    var cleansLate: Bool { putsConditionally && takesFiles.contains(.byDeletingFolder) }
    /// How paths become keys there.
    var names = S3Names()
    /// Which names it keeps as they are.
    var kept = KeptNames()
    /// Nothing may be written.
    var isReadOnly = false

    /// The value of a condition on a version.
    func tag(_ version: ContentVersion) -> String {
        let text = version.tag
        return wantsBareTags || text.hasPrefix("W/") ? text : "\"\(text)\""
    }
}

/// What else than deleting it takes a file away on servers to which a file and the folder of its name are one.
struct FileTaking: OptionSet, Sendable {
    let rawValue: Int

    /// Writing the object that stands for the folder, with a condition that there is none.
    static let byMakingFolder = FileTaking(rawValue: 1)
    /// Deleting that object.
    static let byDeletingFolder = FileTaking(rawValue: 2)
    /// Deleting an object that would be in the folder.
    static let byDeletingBelow = FileTaking(rawValue: 4)
    /// Either: what stands for a folder may be an object in it.
    static let byDeleting: FileTaking = [.byDeletingFolder, .byDeletingBelow]
}

/// Tries a server out with a few small requests that leave nothing behind.
struct S3Probe {
    private typealias Answer = Result<HTTPResponse, S3Failure>

    let client: S3Client
    /// All keys begin so.
    private let folder: [UInt8]
    private let plain: [UInt8]
    private let taken: [UInt8]
    private let changed: [UInt8]
    private let deleted: [UInt8]
    private let summed: [UInt8]
    private let backslash: [UInt8]
    private let slash: [UInt8]
    private let above: [UInt8]
    private let doubts = Doubts()

    /// How many answers there were that may be of their moment only.
    private final class Doubts: Sendable {
        let count = Atomic(0)
    }

    private var hasDoubts: Bool { doubts.count.load(ordering: .relaxed) > 0 }

    private init(client: S3Client) {
        self.client = client
        let folder = client.address.prefix + Array(".cove/probe/\(DocumentID.random())/".utf8)
        self.folder = folder
        (plain, taken) = (folder + Array("plain".utf8), folder + Array("taken".utf8))
        (changed, deleted) = (folder + Array("changed".utf8), folder + Array("deleted".utf8))
        (summed, backslash) = (folder + Array("summed".utf8), folder + Array("back\\slash".utf8))
        (slash, above) = (folder + Array("directory/".utf8), folder + Array("above".utf8))
    }

    /// Finds out what a server does.
    static func find(_ client: S3Client) async throws(ProviderError) -> S3Features {
        try await tryOut {
            let probe = S3Probe(client: client)
            return (await outcome { () throws(ProviderError) in try await probe.run() }, !probe.hasDoubts)
        }
    }

    /// What is asked at once changes different objects, or nothing where it is refused.
    private func run() async throws(ProviderError) -> S3Features {
        async let versioned = Self.outcome { () throws(ProviderError) in try await isVersioned() }
        let result = await Self.outcome { () throws(ProviderError) in try await attempt() }
        let keepsVersions = await versioned
        // Also after a failure: it may have arrived.
        if (try? result.get())?.isReadOnly != true { await cleanUp((try? keepsVersions.get()) ?? false) }
        var features = try result.get()
        features.keepsVersions = try keepsVersions.get()
        return features
    }

    private func isVersioned() async throws(ProviderError) -> Bool {
        guard case .success(let response) = try await ask(S3Call("GET", query: [("versioning", "")])),
            let document = try? S3Document.read(response.body), document.root == "VersioningConfiguration"
        else { return false }
        return ["Enabled", "Suspended"].contains(document["Status"])
    }

    private func cleanUp(_ keepsVersions: Bool) async {
        if keepsVersions, let page = try? await client.versions(folder, after: nil) {
            _ = try? await ask(page.rows.map { S3Call("DELETE", $0.key, query: [("versionId", $0.id)]) })
            return
        }
        var keys = [plain, taken, changed, deleted, summed, backslash, slash, above]
        for _ in 0..<3 {
            _ = try? await ask(keys.map { S3Call("DELETE", $0) })
            // A server may say that it has deleted what it is about to finish.
            guard let left = try? await client.list(folder, delimiter: false).objects else { return }
            keys = left.map(\.key).filter { $0.starts(with: folder) }
            if keys.isEmpty { return }
        }
    }

    private func attempt() async throws(ProviderError) -> S3Features {
        var features = S3Features()
        let sum = Digest.hash(Array("first".utf8), .sha256).base64
        // The first object alone: of several that make one folder at once, rclone shows some later and deletes none.
        let created = try await ask(put(plain, "first", [("If-None-Match", "*")]))
        var first = created
        // Some servers answer a condition with an error of its own.
        if case .failure(let failure) = first, !failure.isForbidden {
            first = try await ask(put(plain, "first"))
        }
        let response: HTTPResponse
        switch first {
        case .success(let success): response = success
        case .failure(let failure):
            guard failure.isForbidden else { throw failure.error }
            features.isReadOnly = true
            return features
        }
        let stored = try await ask([
            put(taken, "first"), put(changed, "first"), put(deleted, ""), put(backslash, ""), put(slash, ""),
            put(summed, "first", [("x-amz-checksum-sha256", sum)]),
        ])
        // Whoever stores the first one stores these.
        for case .failure(let failure) in stored[..<3] {
            throw .failed("trying out what the server can do failed: \(failure.text)", nil)
        }
        let version = S3Object.version(response.head["etag"], size: 5, Timestamp(0))
        features.tagIsDigest = version.tag == Digest.hash(Array("first".utf8), .md5).hexadecimal
        async let kept = Self.outcome { () throws(ProviderError) in try await keptNames() }
        async let taking = Self.outcome { () throws(ProviderError) in try await takesFiles() }
        let (refusals, names) = try await refusals()
        features.names = names
        features.kept = try await kept.get()
        features.takesFiles = try await taking.get()
        features.copiesConditionally = refusals[2]
        // Refused is not enough: it must be there yet.
        async let isThere = Self.outcome { () throws(ProviderError) in try await client.head(deleted) != nil }
        async let isGiven = Self.outcome { () throws(ProviderError) in try await gives(sum) }
        if case .success = created, refusals[0], refusals[1] { try await tryMatch(version, &features) }
        features.deletesConditionally = try await isThere.get() && refusals[3]
        if case .success = stored[5], refusals[4] { features.keepsChecksums = try await isGiven.get() }
        return features
    }

    private static let wrong = [("If-Match", "\"00000000000000000000000000000000\"")]

    /// What is refused of that which must be, and which names are kept.
    private func refusals() async throws(ProviderError) -> ([Bool], S3Names) {
        var copy = S3Call("PUT", backslash)
        copy.headers = [
            ("x-amz-copy-source", client.address.copySource(plain)), ("x-amz-metadata-directive", "REPLACE"),
            ("If-None-Match", "*"),
        ]
        var delete = S3Call("DELETE", deleted)
        delete.headers = Self.wrong
        let sum = Digest.hash(Array("other".utf8), .sha256).base64
        // Each has an object of its own: rclone loses sight of one that is written while it is read or written.
        let calls = [
            put(taken, "second", [("If-None-Match", "*")]), put(changed, "second", Self.wrong), copy, delete,
            put(summed, "first", [("x-amz-checksum-sha256", sum)]),
        ]
        async let listing = Self.outcome { () throws(ProviderError) in
            try await client.list(folder, delimiter: false)
        }
        let answers = try await ask(calls)
        let listed = Set(try await listing.get().objects.map(\.key))
        let names = S3Names(keepsBackslashes: listed.contains(backslash), keepsSlashes: listed.contains(slash))
        return (
            answers.enumerated().map { index, answer in
                guard case .failure(let failure) = answer else { return false }
                return index == 4 ? failure.status == 400 : failure.isPrecondition
            }, names
        )
    }

    /// What takes an empty file away.
    private func takesFiles() async throws(ProviderError) -> FileTaking {
        let (below, same) = (above + Array("/below".utf8), above + [0x2F])
        var delete = S3Call("DELETE", same)
        delete.headers = [("If-Match", "\"\(Digest.hash([], .md5).hexadecimal)\"")]
        let none = [("If-None-Match", "*")]
        var found: FileTaking = []
        // One after the other: what is refused or has no effect changes nothing for the next.
        let attempts: [(FileTaking, [S3Call])] = [
            (.byDeletingBelow, [S3Call("DELETE", below)]), (.byDeletingFolder, [S3Call("DELETE", same)]),
            (.byDeletingFolder, [delete]), (.byMakingFolder, [put(below, ""), put(same, "", none)]),
        ]
        /// The answer; nil, and a doubt, where the line breaks.
        func answer(_ call: S3Call) async throws(ProviderError) -> Answer? {
            do throws(ProviderError) {
                return try await client.ask(call)
            } catch {
                if error == .cancelled || error.parksAccount { throw error }
                doubts.count.add(1, ordering: .relaxed)
                return nil
            }
        }
        var isThere = false
        for (way, calls) in attempts {
            if !isThere, case .failure = try await ask(put(above, "")) { return found }
            for call in calls {
                guard case .failure(let failure) = try await answer(call) else { continue }
                // Some refuse what can't be with errors of their own, or as a conflict.
                let isRefusal = failure.isFinal || failure.isPrecondition || failure.status == 409
                if !isRefusal { doubts.count.add(1, ordering: .relaxed) }
            }
            // In a HEAD some remember what is gone.
            isThere = true
            if case .failure(let failure) = try await answer(S3Call("GET", above)) {
                if failure.status == 404 { isThere = false } else { doubts.count.add(1, ordering: .relaxed) }
            }
            if !isThere { found.insert(way) }
        }
        return found
    }

    /// Which names are kept.
    ///
    /// A backslash has a way of its own, and bytes that are no text are never sent. What XML can't hold some servers list
    /// garbled among versions, so that what was tried would stay.
    private func keptNames() async throws(ProviderError) -> KeptNames {
        // What the server refuses, or breaks off at, is not there then.
        @Sendable func succeeds(_ call: S3Call) async -> Bool {
            let answer = try? await ask(call)
            if answer == nil { doubts.count.add(1, ordering: .relaxed) }
            if case .success? = answer { return true }
            return false
        }
        @Sendable func make(_ name: [UInt8]) async {
            _ = await succeeds(put(folder + name, KeptNames.sample(for: name)))
        }
        let untried: Set<KeptNames.Trait> = [.backslash, .bytes, .unwritable]
        return try await KeptNames.find(except: untried) { names, pairs throws(ProviderError) in
            await withTaskGroup(of: Void.self) { group in
                for name in names { group.addTask { await make(name) } }
                for pair in pairs {
                    group.addTask {
                        // Another one must not answer for it.
                        for name in pair where await !succeeds(S3Call("HEAD", folder + name)) {
                            await make(name)
                        }
                    }
                }
            }
            let there = Set(try await client.list(folder, delimiter: false).objects.map(\.key))
            let inPairs = pairs.joined().filter { there.contains(folder + $0) }
            let read = try await ask(inPairs.map { S3Call("GET", folder + $0) })
            var kept = Set(names.filter { there.contains(folder + $0) })
            for case (let name, .success(let response)) in zip(inPairs, read)
            where response.body == KeptNames.sample(for: name) {
                kept.insert(name)
            }
            for pair in pairs where !pair.allSatisfy(kept.contains) {
                // When one is deleted the server remembers the other, though its file is gone: that is made again.
                _ = await succeeds(S3Call("DELETE", folder + pair[0]))
                await make(pair[1])
                _ = await succeeds(S3Call("DELETE", folder + pair[1]))
            }
            return kept
        }
    }

    private func tryMatch(_ version: ContentVersion, _ features: inout S3Features) async throws(ProviderError) {
        for wantsBareTags in [false, true] {
            features.wantsBareTags = wantsBareTags
            let call = put(plain, "first", [("If-Match", features.tag(version))])
            guard case .success = try await ask(call) else { continue }
            features.putsConditionally = true
            return
        }
    }

    /// True when the server tells the checksum that came with an object.
    private func gives(_ sum: String) async throws(ProviderError) -> Bool {
        var call = S3Call("HEAD", summed)
        call.headers = [S3Call.wantsChecksum]
        guard case .success(let response) = try await ask(call) else { return false }
        return response.head["x-amz-checksum-sha256"] == sum
    }

    private func put(
        _ key: [UInt8],
        _ text: String,
        _ headers: [(name: String, value: String)] = []
    ) -> S3Call { put(key, Array(text.utf8), headers) }

    private func put(
        _ key: [UInt8],
        _ bytes: [UInt8],
        _ headers: [(name: String, value: String)] = []
    ) -> S3Call {
        var call = S3Call("PUT", key)
        call.headers = headers + [("content-md5", Digest.hash(bytes, .md5).base64)]
        call.body = .bytes(bytes)
        call.payload = Digest.hash(bytes, .sha256).hexadecimal
        return call
    }

    /// Asks, and notes an answer that may be of this moment only.
    private func ask(_ call: S3Call) async throws(ProviderError) -> Answer {
        let answer = try await client.ask(call)
        let isConditional = call.headers.contains { $0.name.hasPrefix("If-") }
        if case .failure(let failure) = answer, !failure.isFinal, !(isConditional && failure.isPrecondition) {
            doubts.count.add(1, ordering: .relaxed)
        }
        return answer
    }

    /// Asks several things at once.
    private func ask(_ calls: [S3Call]) async throws(ProviderError) -> [Answer] {
        let answers = await withTaskGroup(of: (index: Int, answer: Result<Answer, ProviderError>).self) { group in
            for (index, call) in calls.enumerated() {
                group.addTask { (index, await Self.outcome { () throws(ProviderError) in try await ask(call) }) }
            }
            var all: [(index: Int, answer: Result<Answer, ProviderError>)] = []
            for await one in group { all.append(one) }
            return all.sorted { $0.index < $1.index }
        }
        var results: [Answer] = []
        for (_, answer) in answers { results.append(try answer.get()) }
        return results
    }

    private static func outcome<R>(
        _ body: () async throws(ProviderError) -> R
    ) async -> Result<R, ProviderError> {
        do throws(ProviderError) { return .success(try await body()) } catch { return .failure(error) }
    }
}

extension S3Failure {
    /// True for a refusal that comes again whenever the same is asked: it says what the server can't do.
    fileprivate var isFinal: Bool {
        if code == .notImplemented || status == 501 { return true }
        return (400..<500).contains(status) && !passes && !isPrecondition
            && ![401, 403, 407, 408, 409, 425].contains(status)
    }

    /// True when it is not for whoever asks.
    fileprivate var isForbidden: Bool { if case .notPermitted = error { true } else { false } }
}
