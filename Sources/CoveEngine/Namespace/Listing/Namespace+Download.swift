internal import CoveCore
internal import Synchronization

/// Downloading what is at a path, or below it.
extension Namespace {
    /// The files at or below a path; directories never listed are listed first.
    private func files(below path: RemotePath) async throws(Errno) -> [ItemID] {
        var stack: [ItemID] = [
            try catalog.read { database throws(Errno) in try database.entry(atPath: path)?.item ?? .root }
        ]
        var files: [ItemID] = []
        while let id = stack.popLast() {
            let row = try catalog.read { database throws(Errno) in try database.existingItem(id) }
            if row.kind == .file { files.append(id) }
            guard row.kind == .directory else { continue }
            if case .later(let pending) = try openDirectory(id, Caller(thread: 0, user: 0, group: 0)) {
                try await pending.value()
            }
            try catalog.read { database throws(Errno) in
                try database.eachEntry(of: id, after: 0) { entry in
                    stack.append(entry.item)
                    return true
                }
            }
        }
        return files
    }

    /// Starts to download a document, or all below a directory; returns when all is asked for.
    func download(_ path: RemotePath) async throws(Errno) {
        let files = try await files(below: path)
        // They go on by themselves, a few at a time.
        Task { [self] in
            await withTaskGroup(of: Void.self) { group in
                for (index, id) in files.enumerated() {
                    if index >= 8 { await group.next() }
                    group.addTask { [self] in _ = try? await contents.materialize(id) }
                }
            }
        }
    }

    /// Downloads a document, or all below a directory, and waits for all of it.
    func waitForDownload(
        _ path: RemotePath,
        progress: @escaping @Sendable (TransferStatus) -> Void
    ) async throws(Errno) {
        let files = try await files(below: path)
        let total = files.reduce(Int64(0)) { sum, id in sum.saturatingAdd((try? attributes(of: id).size) ?? 0) }
        let started = clock.monotonic()
        let done = ByteCount()
        let name = path.description
        let failure = await withTaskGroup(of: Errno?.self) { group in
            var first: Errno?
            for (index, id) in files.enumerated() {
                if index >= 8, let result = await group.next() { first = first ?? result }
                group.addTask { [self] in
                    do throws(Errno) {
                        try await contents.materialize(id)
                    } catch {
                        return error
                    }
                    let size = (try? attributes(of: id).size) ?? 0
                    let sum = done.add(size)
                    let seconds = max(0.001, (clock.monotonic() - started).seconds)
                    progress(
                        TransferStatus(
                            path: name,
                            direction: "download",
                            doneBytes: sum,
                            totalBytes: total,
                            bytesPerSecond: Double(sum) / seconds
                        )
                    )
                    return nil
                }
            }
            for await result in group { first = first ?? result }
            return first
        }
        if let failure { throw failure }
    }
}

/// A sum of sizes that several tasks add to.
private final class ByteCount: Sendable {
    private let bytes = EngineMutex<Int64>(.countedBytes, 0)

    /// Adds a size, and returns the sum.
    func add(_ size: Int64) -> Int64 {
        bytes.withLock { sum in
            sum = sum.saturatingAdd(size)
            return sum
        }
    }
}
