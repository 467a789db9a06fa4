public import CoveCore
internal import Glibc
internal import Synchronization

/// What became of a file that may have the bytes of a document.
public enum AdoptionOutcome: String, Sendable, CaseIterable {
    /// Its bytes are the document's now; or would be, where that was only asked.
    case adopted
    /// The document's bytes are here already.
    case present
    /// It has other bytes.
    case differs
    /// Nothing tells whether it has the same bytes without fetching them.
    case unverified
    /// It changed while it was read.
    case changed
    /// Something uses the document, or it has changes that are not sent.
    case busy
    /// The limit of what is kept here would be exceeded.
    case noRoom = "no-room"
}

/// Taking over what another program has kept of the same cloud.
extension Engine {
    /// Takes the bytes of a file outside of the account for those of a document that is not here, if they are the same.
    ///
    /// The provider says whether they are, by a checksum; where it can't, a file of the same size and date counts if dates are
    /// trusted. The file is only read. With `isTrial` nothing is taken.
    public func adopt(
        _ path: RemotePath,
        from file: [UInt8],
        trustingDates: Bool,
        isTrial: Bool
    ) async throws(Errno) -> AdoptionOutcome {
        if !isTrial { try requireWritable() }
        let wanted = try await onQueue { [self] () throws(Errno) in try adoptable(path) }
        guard let wanted else { return .busy }
        if wanted.isHere { return .present }
        let usage = contents.usage
        // What is here of it goes.
        if usage.resident.saturatingAdd(wanted.row.size - wanted.row.resident) > usage.limit { return .noRoom }
        guard syncEngine?.isConnected == true else { throw .hostUnreachable }
        let opened = try await blocking { [contents] () throws(Errno) -> AdoptedFile? in
            let candidate = try AdoptedFile(file)
            guard candidate.size == wanted.row.size else { return nil }
            if !isTrial { try candidate.hold(contents.copyForAdoption(candidate.descriptor, size: candidate.size)) }
            return candidate
        }
        guard let candidate = opened else { return .differs }
        let answer: Bool?
        do throws(ProviderError) {
            counters.providerRequests.add(1, ordering: .relaxed)
            answer = try await provider.matches(wanted.reference, version: wanted.version, candidate)
        } catch {
            throw error == .versionNoLongerAvailable ? .stale : error.errno
        }
        guard try await blocking({ () throws(Errno) in try candidate.isUnchanged }) else { return .changed }
        switch answer {
        case false?: return .differs
        case nil where !(trustingDates && candidate.modified.wholeSecond == wanted.row.modificationTime.wholeSecond):
            return .unverified
        case true?, nil: break
        }
        if isTrial { return .adopted }
        return try await onQueue { [contents] () throws(Errno) in
            let isTaken = try contents.adopt(wanted.row.id, wanted.version, candidate.held, size: candidate.size)
            return isTaken ? .adopted : .busy
        }
    }

    private struct Wanted: Sendable {
        var row: ItemRow
        var reference: RemoteReference
        var version: ContentVersion
        var isHere: Bool
    }

    /// A document as the provider has it; nil for one that was changed here.
    private func adoptable(_ path: RemotePath) throws(Errno) -> Wanted? {
        let status = try item(at: path)
        guard status.kind == "file" else { throw .isDirectory }
        return try catalog.read { database throws(Errno) in
            guard let entry = try database.entry(atPath: path) else { throw .noSuchEntry }
            guard !status.isDirty, try database.journalRow(entry.id) == nil, let version = entry.remoteVersion,
                var reference = try database.remoteReference(of: entry)
            else { return nil }
            reference.isFile = true
            let row = try database.existingItem(entry.item)
            return Wanted(
                row: row,
                reference: reference,
                version: version,
                isHere: status.state == "materialized" || row.size == 0
            )
        }
    }

    private func blocking<Value: Sendable>(
        _ body: @escaping @Sendable () throws(Errno) -> Value
    ) async throws(Errno) -> Value {
        let result = await OffPool.run { Result { () throws(Errno) in try body() } }
        return try result.get()
    }
}

/// A file outside of the account, and a copy of it that nobody can change.
private final class AdoptedFile: ContentSource {
    let descriptor: Int32
    let size: Int64
    let modified: Timestamp
    private let changed: Timestamp
    private let copy = Mutex<Int32>(-1)

    /// Opens a plain file; throws `EINVAL` for anything else.
    init(_ path: [UInt8]) throws(Errno) {
        let file = try System.openat(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        do throws(Errno) {
            let status = try System.fstat(file)
            guard status.st_mode & S_IFMT == S_IFREG else { throw .invalidArgument }
            descriptor = file
            size = Int64(status.st_size)
            (modified, changed) = (Timestamp(status.st_mtim), Timestamp(status.st_ctim))
        } catch {
            System.close(file)
            throw error
        }
    }

    deinit {
        System.close(descriptor)
        if held >= 0 { System.close(held) }
    }

    /// The copy, or -1.
    var held: Int32 { copy.withLock { $0 } }

    func hold(_ file: Int32) { copy.withLock { $0 = file } }

    /// True while the file is as it was when it was opened.
    var isUnchanged: Bool {
        get throws(Errno) {
            let status = try System.fstat(descriptor)
            return Int64(status.st_size) == size && Timestamp(status.st_mtim) == modified
                && Timestamp(status.st_ctim) == changed
        }
    }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
        do throws(Errno) {
            return try System.pread(held >= 0 ? held : descriptor, buffer, offset)
        } catch {
            throw .failed("the file can't be read: \(error)", error)
        }
    }

    func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int { 0 }
}
