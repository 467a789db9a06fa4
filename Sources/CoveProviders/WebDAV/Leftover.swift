internal import CoveCore
internal import Glibc
internal import Synchronization

/// Hidden names of work that a crash or a broken line interrupted, and what becomes of them.
enum Leftover {
    /// What is older is nobody's work any more; far more than any clock is wrong.
    static let age: Int64 = 2 * 86_400
    /// A deletion that has not ended after so many seconds is ended by whoever sees it; if two do, no harm is done.
    static let deletionAge: Int64 = 60
    /// Some servers take fewer than 255 bytes, or put something to a name themselves.
    private static let longest = 200

    /// The name of something being deleted: it tells which version may be, since when it is, and what it was called.
    static func deleting(
        _ path: RemotePath,
        _ version: ContentVersion,
        since began: Int64 = Int64(Glibc.time(nil))
    ) -> FileName {
        // Eight digits, for the rest of this century.
        let time = String(String(UInt64(bitPattern: began) | 1 << 32, radix: 16).suffix(8))
        let start = Array(".cove-deleting-\(mark(version))-\(time)-".utf8)
        let name = path.name?.bytes ?? []
        var length = min(name.count, longest - start.count)
        // No character is cut.
        for _ in 0..<3 where length < name.count && name[length] & 0xC0 == 0x80 { length -= 1 }
        return FileName(unchecked: start + name.prefix(length))
    }

    static func mark(_ version: ContentVersion) -> String {
        String(Digest.hash(version.bytes, .sha256).hexadecimal.prefix(8))
    }

    /// What a hidden name says of itself.
    enum Kind: Equatable {
        case upload(began: Int64)
        case probe
        case deleting(mark: String, began: Int64, name: [UInt8])
    }

    static func kind(_ name: FileName) -> Kind? {
        let bytes = name.bytes
        let upload = bytes.first == 0x2E ? bytes.dropFirst() : bytes[...]
        if upload.starts(with: StagedName.prefix.utf8) {
            let began = upload.dropFirst(StagedName.prefix.utf8.count).prefix { $0 != 0x2D }
            return .upload(began: Int64(String(decoding: began, as: UTF8.self), radix: 16) ?? .max)
        }
        if bytes.starts(with: Array(".cove-probe-".utf8)) { return .probe }
        let start = Array(".cove-deleting-".utf8)
        guard bytes.starts(with: start) else { return nil }
        let parts = bytes.dropFirst(start.count).split(separator: 0x2D, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[2].isEmpty, parts[0].count == 8, parts[1].count == 8,
            UInt32(String(decoding: parts[0], as: UTF8.self), radix: 16) != nil,
            let began = UInt32(String(decoding: parts[1], as: UTF8.self), radix: 16)
        else { return nil }
        let mark = String(decoding: parts[0], as: UTF8.self)
        return .deleting(mark: mark, began: Int64(began), name: Array(parts[2]))
    }
}

/// Counts what is being cleaned up: of more than a few the rest is found another day.
final class Cleaning: Sendable {
    private static let most = 8
    private let count = Atomic<Int>(0)

    func enter() -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= Self.most { return true }
        leave()
        return false
    }

    func leave() { count.subtract(1, ordering: .relaxed) }
}

extension WebDAVProvider {
    /// Deletes what an interrupted upload left, and puts back what was not meant to be deleted: what this device has left
    /// at once, and what others have when it is old.
    func noteLeftover(_ name: FileName, in directory: RemotePath, _ resource: DAVResource) {
        guard let kind = Leftover.kind(name), (try? server())?.isReadOnly == false else { return }
        guard StagedName(name).map(stages.isLeft) == true || isOld(resource, kind), cleaning.enter() else { return }
        let path = directory.appending(name)
        Task {
            defer { cleaning.leave() }
            do throws(ProviderError) {
                switch kind {
                case .upload: _ = try await send("DELETE", path)
                case .probe: _ = try await send("DELETE", path, isDirectory: true)
                case .deleting(let mark, _, let name): try await endDeleting(path, resource, mark, name)
                }
            } catch {
                log("\(path): an old leftover stays: \(error)")
            }
        }
    }

    /// True for what nobody works on any more.
    private func isOld(_ resource: DAVResource, _ kind: Leftover.Kind) -> Bool {
        func isPast(_ age: Int64, since time: Int64) -> Bool {
            let (past, overflow) = Int64(Glibc.time(nil)).subtractingReportingOverflow(time)
            return !overflow && past > age
        }
        if case .deleting(_, let began, _) = kind {
            // Names of earlier versions have another number there; and where a MOVE makes another version of a file, nobody
            // can tell by the mark which one was meant.
            let isDated = began <= Int64(Glibc.time(nil)) + 86_400
            let isKnown = resource.isCollection || (try? server())?.keepsVersionOnMove == true
            if isDated, isKnown { return isPast(Leftover.deletionAge, since: began) }
        }
        guard let modified = resource.modified?.seconds else { return false }
        if case .upload(let began) = kind { return isPast(Leftover.age, since: max(modified, began)) }
        return isPast(Leftover.age, since: modified)
    }

    /// Ends a deletion that broke off: what was meant goes, and what was not gets its place again.
    func endDeleting(
        _ path: RemotePath,
        _ resource: DAVResource,
        _ mark: String,
        _ name: [UInt8],
        depth: Int = 0
    ) async throws(ProviderError) {
        if resource.isCollection {
            if try await isEmpty(path, depth: depth) { return try await removeEmpty(path) }
        } else if mark == Leftover.mark(resource.contentVersion) {
            _ = try await send("DELETE", path)
            return
        }
        guard let name = FileName(validating: name) else { return }
        try await bringBack(path, to: path.parent.appending(name), isDirectory: resource.isCollection)
    }
}
