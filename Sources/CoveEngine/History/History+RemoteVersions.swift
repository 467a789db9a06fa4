internal import CoveCore
internal import Glibc
internal import Synchronization

/// Earlier contents that the provider keeps, and nobody here.
extension History {
    /// What the ids of these begin with here; local ones are numbers.
    static let remoteMark = "@"

    /// All earlier contents of a file, the newest first, and then the files that hold other sides of its conflicts.
    ///
    /// Those of the provider are among them while it can be reached; a content that is here too is given once, as local.
    func allVersions(of path: RemotePath) async throws(Errno) -> [VersionStatus] {
        await lookForConflicts(of: path)
        let local = try versions(of: path)
        let (entry, row) = try catalog.read { database throws(Errno) in
            let entry = try self.file(path, database)
            return (entry, try database.existingItem(entry.item))
        }
        var known = Set(local.filter { !$0.isConflict }.compactMap(\.contentVersion))
        if let current = entry.remoteVersion { known.insert("\(current)") }
        // Where a source names no version of the contents that it keeps, size and second tell what is here too.
        let here = Set(
            local.filter { !$0.isConflict }.map { [$0.size, Int64(saturating: $0.modificationTime.rounded(.down))] }
        )
        // A content is replaced when the next is written.
        var replaced = row.modificationTime
        var remote: [VersionStatus] = []
        do throws(Errno) {
            for version in try await remoteVersions(of: path) {
                defer { replaced = version.modificationTime }
                let content = version.contentVersion.map { "\($0)" }
                let second = version.modificationTime.seconds
                guard content.map({ known.insert($0).inserted }) ?? !here.contains([version.size, second]) else {
                    continue
                }
                remote.append(
                    VersionStatus(
                        id: History.remoteMark + version.id,
                        documentID: "\(entry.document)",
                        size: version.size,
                        modificationTime: version.modificationTime.secondsSinceEpoch,
                        replacedTime: max(replaced, version.modificationTime).secondsSinceEpoch,
                        host: nil,
                        contentVersion: content,
                        isLocal: false
                    )
                )
            }
        } catch {
            log.notice("\(path): the source's versions can't be told: \(error)")
        }
        let kept = (local.filter { !$0.isConflict } + remote).sorted { $0.replacedTime > $1.replacedTime }
        return kept + local.filter(\.isConflict)
    }

    /// The provider's earlier contents of a file; none where it keeps none, or can't be reached.
    private func remoteVersions(of path: RemotePath) async throws(Errno) -> [RemoteVersion] {
        guard provider.capabilities.versions, sync?.isConnected == true,
            let reference = try remoteReference(of: path)
        else { return [] }
        do throws(ProviderError) {
            return try await provider.versions(of: reference)
        } catch {
            if error == .noSuchItem { return [] }
            log.debug("\(path): \(error)")
            throw error.errno
        }
    }

    private func remoteReference(of path: RemotePath) throws(Errno) -> RemoteReference? {
        try catalog.read { database throws(Errno) in
            try database.remoteReference(of: try self.file(path, database))
        }
    }

    /// The provider's version that an id names; nil for an id of something else.
    func remoteVersion(_ id: String, of path: RemotePath) async throws(Errno) -> RemoteVersion? {
        guard id.hasPrefix(History.remoteMark) else { return nil }
        guard provider.capabilities.versions else { throw .noData }
        guard sync?.isConnected == true else { throw .hostUnreachable }
        let versions = try await remoteVersions(of: path)
        guard let version = versions.first(where: { History.remoteMark + $0.id == id }) else { throw .noData }
        return version
    }

    /// Fetches a version of the provider into a file without a name, which is the caller's.
    func fetch(_ version: RemoteVersion, of path: RemotePath) async throws(Errno) -> Int32 {
        guard let reference = try remoteReference(of: path) else { throw .noData }
        guard (0...Contents.maximumFileSize).contains(version.size) else { throw .fileTooLarge }
        guard disk.hasRoom(for: version.size) else { throw .noSpace }
        let file = try contents.store.unnamed()
        let sink = VersionSink(file: file, size: version.size, disk: disk)
        do throws(ProviderError) {
            try await provider.fetch(version, of: reference, into: sink)
        } catch {
            System.close(file)
            log.notice("\(path): its version \(version.id) can't be fetched: \(error)")
            throw error.errno
        }
        guard sink.isComplete else {
            System.close(file)
            throw .inputOutput
        }
        return file
    }
}

/// Puts a version's bytes into a file that nobody else knows.
private final class VersionSink: ContentSink {
    private let file: Int32
    private let size: Int64
    private let disk: StateDisk
    private let received = Atomic<Int64>(0)

    init(file: Int32, size: Int64, disk: StateDisk) {
        self.file = file
        self.size = size
        self.disk = disk
    }

    /// All bytes came: each comes once.
    var isComplete: Bool { received.load(ordering: .acquiring) == size }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        try take(offset, bytes.count) { () throws(Errno) in try System.pwriteAll(self.file, bytes, offset) }
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        try take(offset, count) { () throws(Errno) in
            var done = 0
            while done < count {
                let copied = try System.copyFileRange(
                    from: descriptor,
                    at: offset + Int64(done),
                    to: self.file,
                    at: offset + Int64(done),
                    count: count - done
                )
                guard copied > 0 else { throw .inputOutput }
                done += copied
            }
        }
        return count
    }

    private func take(
        _ offset: Int64,
        _ count: Int,
        _ body: () throws(Errno) -> Void
    ) throws(ProviderError) {
        guard offset >= 0, offset + Int64(count) <= size else {
            throw .failed("the source sent bytes that were not asked for", .inputOutput)
        }
        do throws(Errno) {
            try disk.requireRoom(forCopy: count)
            try disk.writing("a version's bytes", body)
        } catch {
            throw .failed("the local disk can't take the bytes: \(error)", error)
        }
        received.add(Int64(count), ordering: .acquiringAndReleasing)
    }
}
